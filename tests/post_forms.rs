//! POST Object: uploads by HTML forms, as browsers send them.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::harness::client::REGION;
use crate::harness::raw::Reply;
use crate::harness::server::{ACCESS_KEY, SECRET_KEY};
use crate::harness::sigv4::Signer;
use crate::harness::{BUCKET, Stage, base64, bytes};

const BOUNDARY: &str = "----a-boundary-of-forms";

/// A form under construction.
struct Form {
    fields: Vec<(String, String)>,
    file_name: String,
    file: Vec<u8>,
}

impl Form {
    /// A form without a policy, for the key.
    fn anonymous(key: &str, file: &[u8]) -> Self {
        let fields = vec![("key".to_owned(), key.to_owned())];
        Self { fields, file_name: "file.txt".to_owned(), file: file.to_vec() }
    }

    /// A signed form: the policy allows exactly the bucket, any key, and what `conditions` says.
    fn signed(key: &str, file: &[u8], conditions: &str) -> Self {
        Self::signed_until(key, file, conditions, OffsetDateTime::now_utc() + Duration::hours(1))
    }

    fn signed_until(key: &str, file: &[u8], conditions: &str, expiration: OffsetDateTime) -> Self {
        let signer = Signer {
            access_key: ACCESS_KEY.to_owned(),
            secret_key: SECRET_KEY.to_owned(),
            region: REGION.to_owned(),
            time: OffsetDateTime::now_utc(),
        };
        let credential = format!("{ACCESS_KEY}/{}", signer.scope());
        let (date, expiration) = (signer.timestamp(), expiration.format(&Rfc3339).expect("a date"));
        let more = if conditions.is_empty() { String::new() } else { format!(",{conditions}") };
        let policy = base64(format!(
            r#"{{"expiration":"{expiration}","conditions":[{{"bucket":"{BUCKET}"}},["starts-with","$key",""],
            {{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},{{"x-amz-credential":"{credential}"}},{{"x-amz-date":"{date}"}}{more}]}}"#
        ));
        let signature = signer.seal(&policy);
        Self::anonymous(key, file)
            .field("x-amz-algorithm", "AWS4-HMAC-SHA256")
            .field("x-amz-credential", &credential)
            .field("x-amz-date", &date)
            .field("policy", &policy)
            .field("x-amz-signature", &signature)
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    async fn post(&self, stage: &Stage) -> Reply {
        let mut body = Vec::new();
        for (name, value) in &self.fields {
            let field = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend_from_slice(field.as_bytes());
        }
        let file = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\nContent-Type: text/x-file\r\n\r\n",
            self.file_name
        );
        body.extend_from_slice(file.as_bytes());
        body.extend_from_slice(&self.file);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        stage.request("POST", "/bucket").anonymous().header("content-type", &kind).body(body).send().await
    }
}

#[tokio::test]
async fn a_signed_form_stores_its_file_and_answers_as_it_asks() {
    let stage = Stage::start().await;
    for (size, name) in [(0, "empty"), (10, "small"), (300_000, "large"), (9_000_000, "streamed")] {
        let data = bytes(size as u64, size);
        let reply = Form::signed(name, &data, "").post(&stage).await;
        assert_eq!(reply.status, 204, "{name}: {}", reply.text());
        let etag = format!("\"{}\"", crate::harness::md5_hex(&data));
        assert_eq!(reply.header("etag"), Some(etag.as_str()));
        let location = format!("{}/bucket/{name}", stage.gateway.endpoint);
        assert_eq!(reply.header("location"), Some(location.as_str()));
        assert!(stage.get(name).await == data, "{name}");
    }
    let created = r#"{"success_action_status":"201"}"#;
    let reply = Form::signed("a&b c", b"x", created).field("success_action_status", "201").post(&stage).await;
    assert_eq!((reply.status, reply.xml("Key").as_deref()), (201, Some("a&b c")));
    assert_eq!(reply.xml("Bucket").as_deref(), Some(BUCKET));
    assert_eq!(reply.xml("Location"), Some(format!("{}/bucket/a%26b%20c", stage.gateway.endpoint)));
    assert_eq!(reply.xml("ETag"), Some(format!("\"{}\"", crate::harness::md5_hex(b"x"))));
    let redirect = r#"["starts-with","$success_action_redirect","http://example.org/"]"#;
    let form = Form::signed("b", b"x", redirect).field("success_action_redirect", "http://example.org/done?x=1");
    let reply = form.post(&stage).await;
    let location = reply.header("location").unwrap_or_default();
    assert_eq!(reply.status, 303);
    let etag = crate::harness::md5_hex(b"x");
    assert_eq!(location, format!("http://example.org/done?x=1&bucket=bucket&key=b&etag=%22{etag}%22"));
}

#[tokio::test]
async fn a_form_whose_policy_nobody_signed_is_no_form() {
    let stage = Stage::start().await;
    let mut form = Form::signed("k", b"x", "");
    form.fields.retain(|(name, _)| name != "x-amz-signature");
    let refused = form.post(&stage).await;
    assert_eq!(refused.refusal(), (400, "InvalidArgument".to_owned()), "{}", refused.text());
    let twice = Form::signed("k", b"x", r#"["starts-with","$tagging",""]"#).field("tagging", "").field("Tagging", "");
    assert_eq!(twice.post(&stage).await.refusal().0, 400);
    assert!(!stage.exists("k").await);
}

#[tokio::test]
async fn fields_say_of_the_object_what_headers_do() {
    let stage = Stage::start().await;
    let allowed = r#"["starts-with","$Content-Type",""],["starts-with","$Cache-Control",""],["starts-with","$x-amz-meta-colour",""],
        ["starts-with","$x-amz-tagging",""],["starts-with","$x-amz-storage-class",""]"#;
    let form = Form::signed("dir/${filename}", b"content", allowed)
        .field("Content-Type", "image/png")
        .field("Cache-Control", "no-store")
        .field("x-amz-meta-colour", "blue")
        .field("x-amz-tagging", "a=1")
        .field("x-amz-storage-class", "STANDARD_IA");
    let reply = form.post(&stage).await;
    assert_eq!(reply.status, 204, "{}", reply.text());
    let got = stage.s3.get_object().bucket(BUCKET).key("dir/file.txt").send().await.expect("the name of the file");
    assert_eq!((got.content_type(), got.cache_control()), (Some("image/png"), Some("no-store")));
    assert_eq!(got.metadata().and_then(|m| m.get("colour")).map(String::as_str), Some("blue"));
    assert_eq!(got.tag_count(), Some(1));
    assert_eq!(got.storage_class().map(|c| c.as_str()), Some("STANDARD_IA"));
}

#[tokio::test]
async fn a_form_has_its_tags_in_a_document() {
    let stage = Stage::start().await;
    let document = "<Tagging><TagSet><Tag><Key>a b</Key><Value>1</Value></Tag></TagSet></Tagging>";
    let form = Form::signed("k", &bytes(1, 3_000_000), r#"["starts-with","$tagging",""]"#).field("tagging", document);
    let reply = form.post(&stage).await;
    assert_eq!(reply.status, 204, "{}", reply.text());
    let tags = stage.s3.get_object_tagging().bucket(BUCKET).key("k").send().await.expect("tags");
    let tags: Vec<_> = tags.tag_set().iter().map(|tag| (tag.key(), tag.value())).collect();
    assert_eq!(tags, [("a b", "1")]);
}

#[tokio::test]
async fn what_the_policy_does_not_allow_is_not_stored() {
    let stage = Stage::start().await;
    let past = OffsetDateTime::now_utc() - Duration::minutes(1);
    let mut forged = Form::signed("k", b"x", "");
    forged.fields.retain(|(name, _)| name != "x-amz-signature");
    for (what, form, status, code) in [
        ("anonymous", Form::anonymous("k", b"x"), 403, "AccessDenied"),
        ("an expired policy", Form::signed_until("k", b"x", "", past), 403, "AccessDenied"),
        ("another signature", forged.field("x-amz-signature", &"0".repeat(64)), 403, "SignatureDoesNotMatch"),
        (
            "a field that no condition names",
            Form::signed("k", b"x", "").field("x-amz-meta-a", "1"),
            403,
            "AccessDenied",
        ),
        ("another key", Form::signed("k", b"x", r#"["starts-with","$key","user/"]"#), 403, "AccessDenied"),
        ("a longer file", Form::signed("k", b"12345", r#"["content-length-range",0,4]"#), 400, "EntityTooLarge"),
        ("a shorter file", Form::signed("k", b"x", r#"["content-length-range",2,4]"#), 400, "EntityTooSmall"),
        (
            "encryption",
            Form::signed("k", b"x", r#"{"x-amz-server-side-encryption":"AES256"}"#)
                .field("x-amz-server-side-encryption", "AES256"),
            501,
            "NotImplemented",
        ),
        (
            "tags that are none",
            Form::signed("k", b"x", r#"["starts-with","$tagging",""]"#).field("tagging", "<Tagging"),
            400,
            "MalformedXML",
        ),
    ] {
        let reply = form.post(&stage).await;
        assert_eq!(reply.refusal(), (status, code.to_owned()), "{what}: {}", reply.text());
        assert!(!stage.exists("k").await, "{what}");
    }
    let on_an_object = stage
        .request("POST", "/bucket/k")
        .header("content-type", &format!("multipart/form-data; boundary={BOUNDARY}"))
        .send()
        .await;
    assert_eq!(on_an_object.refusal(), (405, "MethodNotAllowed".to_owned()));
}
