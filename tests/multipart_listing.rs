//! ListParts, ListMultipartUploads, and what GetObjectAttributes says of parts.

use crate::harness::{BUCKET, Reply, Stage, bytes, path};
use crate::multipart::{MIB, create, part, upload};

#[tokio::test]
async fn parts_are_listed_in_pages() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    for number in [5, 1, 3] {
        part(&stage, "k", &id, number, &bytes(1, usize::try_from(number).unwrap())).await;
    }
    let list = async |query: &str| -> Reply {
        stage.request("GET", &format!("{}?uploadId={id}{query}", path("k"))).send().await
    };
    let all = list("").await;
    assert_eq!(all.xml_all("PartNumber"), ["1", "3", "5"]);
    assert_eq!(all.xml_all("Size"), ["1", "3", "5"]);
    assert_eq!(all.xml("IsTruncated").as_deref(), Some("false"));
    assert_eq!((all.xml("Bucket").as_deref(), all.xml("Key").as_deref()), (Some(BUCKET), Some("k")));
    assert_eq!(all.xml("UploadId"), Some(id.clone()));
    assert!(all.xml_all("ETag")[0].starts_with('"'));
    let page = list("&max-parts=2").await;
    assert_eq!(page.xml_all("PartNumber"), ["1", "3"]);
    assert_eq!(page.xml("IsTruncated").as_deref(), Some("true"));
    assert_eq!(page.xml("NextPartNumberMarker").as_deref(), Some("3"));
    let next = list("&part-number-marker=3").await;
    assert_eq!(next.xml_all("PartNumber"), ["5"]);
}

#[tokio::test]
async fn uploads_under_way_are_listed_by_key_and_age_in_pages() {
    let stage = Stage::start().await;
    let mut ids = Vec::new();
    for key in ["b", "a", "dir/x", "dir/y", "a"] {
        ids.push(create(&stage, key).await);
    }
    let list = async |query: &str| -> Reply { stage.request("GET", &format!("/bucket?uploads{query}")).send().await };
    let all = list("").await;
    assert_eq!(all.xml_all("Key"), ["a", "a", "b", "dir/x", "dir/y"]);
    assert_eq!(all.xml_all("UploadId")[..2], [ids[1].clone(), ids[4].clone()], "the older first");
    assert_eq!(all.xml("IsTruncated").as_deref(), Some("false"));
    let folded = list("&delimiter=%2F").await;
    assert_eq!(folded.xml_all("Key"), ["a", "a", "b"]);
    assert!(folded.text().contains("<CommonPrefixes><Prefix>dir/</Prefix></CommonPrefixes>"), "{}", folded.text());
    assert_eq!(list("&prefix=dir%2F").await.xml_all("Key"), ["dir/x", "dir/y"]);
    let mut seen = Vec::new();
    let mut marker = String::new();
    for _ in 0..10 {
        let page = list(&format!("&max-uploads=1{marker}")).await;
        seen.extend(page.xml_all("UploadId").into_iter().filter(|id| ids.contains(id)).take(1));
        if page.xml("IsTruncated").as_deref() != Some("true") {
            break;
        }
        let (key, id) = (page.xml("NextKeyMarker").unwrap(), page.xml("NextUploadIdMarker").unwrap());
        let key = crate::harness::sigv4::encode(&key, false);
        marker = format!("&key-marker={key}&upload-id-marker={id}");
    }
    assert_eq!(seen, all.xml_all("UploadId"), "page by page");
    assert_eq!(
        list("&key-marker=a").await.xml_all("Key"),
        ["b", "dir/x", "dir/y"],
        "a marker without an id skips the key"
    );
}

#[tokio::test]
async fn the_attributes_of_a_multipart_object_name_its_parts() {
    let stage = Stage::start().await;
    upload(&stage, "k", &[bytes(1, 5 * MIB), bytes(2, 10)]).await;
    let reply = stage
        .request("GET", &format!("{}?attributes", path("k")))
        .header("x-amz-object-attributes", "ETag,ObjectParts,ObjectSize")
        .send()
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.xml("ObjectSize"), Some((5 * MIB + 10).to_string()));
    assert!(reply.text().contains("<PartsCount>2</PartsCount>"), "{}", reply.text());
}
