//! GetObjectAttributes: what is known of an object, without its content.
//!
//! The client names the attributes it wants in `x-amz-object-attributes`, a comma-separated list that s3s does not split.
//! Parts are listed for multipart objects only, a page at a time.

use http::HeaderMap;
use s3s::dto::{self, *};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::{ObjectInfo, Page, PartInfo, RangeRequest};

use super::checksum_fields::{ChecksumTexts, set_checksum};
use super::get_object::{signed, signed32};
use super::{Answer, Gateway, metadata, parties, versions};

/// Parts in one answer (AWS: `x-amz-max-parts`).
const MAX_PARTS: u32 = 1000;

/// GetObjectAttributes.
pub(super) async fn get(
    gateway: &Gateway,
    req: S3Request<GetObjectAttributesInput>,
) -> Answer<GetObjectAttributesOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let wanted = Wanted::from_headers(&req.headers)?;
    let page = PartsPage::from_input(&req.input)?;

    let missing = |error| parties::of_missing(&req.extensions, error);
    let (info, parts) = if wanted.parts {
        let found = gateway.storage.object_parts(&object, page.after, page.max).await;
        found.map(|(info, parts)| (info, Some(parts))).map_err(missing)?
    } else {
        let located = gateway.storage.head(&object, RangeRequest::Whole).await.map_err(missing)?;
        (located.info.clone(), None)
    };
    parties::confirm(&req.extensions, &object, &info).await?;

    let parts = parts.and_then(|parts| object_parts(&info, &parts, page));
    let output = GetObjectAttributesOutput {
        checksum: wanted.checksum.then(|| checksum(&info)).flatten(),
        e_tag: wanted.etag.then(|| ETag::Strong(info.etag.clone())),
        last_modified: Some(info.last_modified.into()),
        object_parts: parts,
        object_size: wanted.size.then(|| signed(info.size)),
        storage_class: wanted.storage_class.then(|| {
            StorageClass::from(info.attributes.storage_class.clone().unwrap_or_else(|| metadata::STANDARD.to_owned()))
        }),
        version_id: versions::text(info.version),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// The attributes that a client names.
#[derive(Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
struct Wanted {
    etag: bool,
    checksum: bool,
    parts: bool,
    storage_class: bool,
    size: bool,
}

impl Wanted {
    fn from_headers(headers: &HeaderMap) -> S3Result<Self> {
        let mut wanted = Self::default();
        for value in headers.get_all("x-amz-object-attributes") {
            let list = String::from_utf8_lossy(value.as_bytes());
            for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                wanted.add(name)?;
            }
        }
        if wanted == Self::default() {
            return Err(s3_error!(
                InvalidRequest,
                "The x-amz-object-attributes header specifying the attributes to be \
                 retrieved is either missing or empty"
            ));
        }
        Ok(wanted)
    }

    fn add(&mut self, name: &str) -> S3Result<()> {
        match name {
            "ETag" => self.etag = true,
            "Checksum" => self.checksum = true,
            "ObjectParts" => self.parts = true,
            "StorageClass" => self.storage_class = true,
            "ObjectSize" => self.size = true,
            _ => return Err(s3_error!(InvalidArgument, "Invalid attribute name specified.")),
        }
        Ok(())
    }
}

/// Which parts to list.
#[derive(Clone, Copy)]
struct PartsPage {
    after: u32,
    max: u32,
}

impl PartsPage {
    fn from_input(input: &GetObjectAttributesInput) -> S3Result<Self> {
        let invalid = || s3_error!(InvalidArgument, "Part markers and limits must not be negative");
        let after = u32::try_from(input.part_number_marker.unwrap_or(0)).map_err(|_| invalid())?;
        let max = input.max_parts.map_or(Ok(MAX_PARTS), u32::try_from).map_err(|_| invalid())?;
        Ok(Self { after, max: max.min(MAX_PARTS) })
    }
}

fn checksum(info: &ObjectInfo) -> Option<dto::Checksum> {
    info.checksum.as_ref()?;
    let mut output = dto::Checksum::default();
    output.checksum_type = set_checksum!(output, ChecksumTexts::new(info.checksum.as_ref(), None));
    Some(output)
}

fn object_parts(info: &ObjectInfo, page: &Page<PartInfo>, asked: PartsPage) -> Option<GetObjectAttributesParts> {
    let count = info.parts_count?;
    let last = page.entries.last().map_or(asked.after, |part| part.number);
    Some(GetObjectAttributesParts {
        is_truncated: Some(page.truncated),
        max_parts: Some(signed32(asked.max)),
        next_part_number_marker: Some(signed32(last)),
        part_number_marker: Some(signed32(asked.after)),
        parts: Some(page.entries.iter().map(object_part).collect()),
        total_parts_count: Some(signed32(count)),
    })
}

fn object_part(part: &PartInfo) -> ObjectPart {
    let mut output =
        ObjectPart { part_number: Some(signed32(part.number)), size: Some(signed(part.size)), ..Default::default() };
    let _ = set_checksum!(output, ChecksumTexts::new(part.checksum.as_ref(), None));
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn attributes_are_a_list() {
        let wanted = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-object-attributes", HeaderValue::from_static(text));
            Wanted::from_headers(&headers).map_err(|e| e.code().as_str().to_owned())
        };
        let expected = Wanted { etag: true, size: true, ..Default::default() };
        assert_eq!(wanted("ETag, ObjectSize"), Ok(expected));
        assert_eq!(wanted("ETag,Colour"), Err("InvalidArgument".to_owned()));
        assert_eq!(wanted(" "), Err("InvalidRequest".to_owned()));
    }
}
