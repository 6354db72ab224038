//! The S3 face of the gateway: s3s's operations in, the engine's out.
//!
//! s3s parses requests, verifies signatures and serialises answers; what it leaves to us is why the modules
//! beside this one exist. Each group of operations has its file, and this one is their table of contents. The
//! layer knows HTTP and S3 and no SQL: it turns headers into the engine's vocabulary once, and decides nothing that
//! depends on what is stored unless the engine has told it (a read) or decides it in its publishing statement (a write).
//!
//! Operations that are not listed here answer 501 `NotImplemented` by s3s's default.

mod admission;
mod body;
mod buckets;
mod checksum_fields;
pub(crate) mod checksums;
mod complete_upload;
mod conditions;
mod copy_object;
mod delete_object;
pub(crate) mod error;
mod get_object;
pub(crate) mod list_entries;
mod list_objects;
mod list_uploads;
mod listing_token;
mod metadata;
mod multipart;
pub(crate) mod names;
mod object_attributes;
mod put_object;
pub(crate) mod range;
mod tagging;

use http::HeaderMap;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::auth::Owner;
use crate::storage::Storage;

/// Headers that s3s would refuse, set aside by the edge after the signature was verified with them in place.
#[derive(Clone, Debug)]
pub(crate) struct SetAside(pub(crate) HeaderMap);

/// The S3 operations over one storage.
#[derive(Clone)]
pub struct Gateway {
    storage: Storage,
    region: String,
    owner: Owner,
}

impl Gateway {
    /// The operations of a storage; `region` is what the gateway says it is in.
    #[must_use]
    pub fn new(storage: Storage, region: String, owner: Owner) -> Self {
        Self { storage, region, owner }
    }

    /// The first line of every operation: refuses what cannot be honoured.
    fn admit<T>(&self, req: &S3Request<T>) -> S3Result<()> {
        admission::check(req, &self.owner)
    }

    fn owner(&self) -> s3s::dto::Owner {
        s3s::dto::Owner { display_name: Some(self.owner.display_name.clone()), id: Some(self.owner.id.clone()) }
    }

    fn initiator(&self) -> Initiator {
        Initiator { display_name: Some(self.owner.display_name.clone()), id: Some(self.owner.id.clone()) }
    }
}

type Answer<T> = S3Result<S3Response<T>>;

#[async_trait::async_trait]
impl S3 for Gateway {
    async fn list_buckets(&self, req: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
        buckets::list(self, req).await
    }
    async fn create_bucket(&self, req: S3Request<CreateBucketInput>) -> Answer<CreateBucketOutput> {
        buckets::create(self, req).await
    }
    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
        buckets::head(self, req).await
    }
    async fn delete_bucket(&self, req: S3Request<DeleteBucketInput>) -> Answer<DeleteBucketOutput> {
        buckets::delete(self, req).await
    }
    async fn get_bucket_location(&self, req: S3Request<GetBucketLocationInput>) -> Answer<GetBucketLocationOutput> {
        buckets::location(self, req).await
    }
    async fn get_bucket_versioning(
        &self,
        req: S3Request<GetBucketVersioningInput>,
    ) -> Answer<GetBucketVersioningOutput> {
        buckets::versioning(self, req).await
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        get_object::get(self, req).await
    }
    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
        get_object::head(self, req).await
    }
    async fn get_object_attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> Answer<GetObjectAttributesOutput> {
        object_attributes::get(self, req).await
    }
    async fn get_object_tagging(&self, req: S3Request<GetObjectTaggingInput>) -> Answer<GetObjectTaggingOutput> {
        tagging::get(self, req).await
    }
    async fn put_object(&self, req: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        put_object::put(self, req).await
    }
    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
        copy_object::copy(self, req).await
    }
    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> Answer<DeleteObjectOutput> {
        delete_object::one(self, req).await
    }
    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> Answer<DeleteObjectsOutput> {
        delete_object::many(self, req).await
    }

    async fn list_objects(&self, req: S3Request<ListObjectsInput>) -> Answer<ListObjectsOutput> {
        list_objects::v1(self, req).await
    }
    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> Answer<ListObjectsV2Output> {
        list_objects::v2(self, req).await
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        multipart::create(self, req).await
    }
    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        multipart::upload_part(self, req).await
    }
    async fn upload_part_copy(&self, req: S3Request<UploadPartCopyInput>) -> Answer<UploadPartCopyOutput> {
        copy_object::copy_part(self, req).await
    }
    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        complete_upload::complete(self, req).await
    }
    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        multipart::abort(self, req).await
    }
    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
        list_uploads::parts(self, req).await
    }
    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> Answer<ListMultipartUploadsOutput> {
        list_uploads::uploads(self, req).await
    }
}
