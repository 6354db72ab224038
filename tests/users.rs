//! Users and their access keys: what each may do without a policy, and how keys come, rest and go.

use crate::harness::server::{run, text};
use crate::harness::{Stage, eventually};

fn outcome(found: &(u16, String)) -> (u16, &str) {
    (found.0, found.1.as_str())
}

#[tokio::test]
async fn users_own_their_buckets_and_see_nobody_elses() {
    let stage = Stage::start().await;
    let (alice, bob) = (stage.user("alice").await, stage.user("bob").await);
    assert_eq!(alice.asks("PUT", "/of-alice").await.0, 200);
    assert_eq!(alice.request("PUT", "/of-alice/key").body("hers").send().await.status, 200);
    assert_eq!(alice.request("GET", "/of-alice/key").send().await.body, b"hers");
    for (method, target) in [
        ("GET", "/of-alice"),
        ("HEAD", "/of-alice"),
        ("GET", "/of-alice/key"),
        ("GET", "/of-alice/absent"),
        ("PUT", "/of-alice/key"),
        ("DELETE", "/of-alice/key"),
        ("DELETE", "/of-alice"),
        ("GET", "/of-alice?policy"),
        ("PUT", "/of-alice?policy"),
        ("GET", "/of-alice?acl"),
        ("GET", "/of-alice?versions"),
        ("GET", "/of-alice?uploads"),
        ("GET", "/of-alice/key?tagging"),
        ("POST", "/of-alice/key?uploads"),
        ("GET", "/bucket"),
    ] {
        let denied = bob.asks(method, target).await;
        assert_eq!(denied.0, 403, "{method} {target}");
        assert!(method == "HEAD" || denied.1 == "AccessDenied", "{method} {target}: {}", denied.1);
        assert_eq!(stage.request(method, target).anonymous().send().await.status, 403, "{method} {target}, unsigned");
    }
    assert_eq!(outcome(&bob.asks("PUT", "/of-alice").await), (409, "BucketAlreadyExists"));
    assert_eq!(outcome(&alice.asks("PUT", "/of-alice").await), (409, "BucketAlreadyOwnedByYou"));
    assert_eq!(outcome(&bob.asks("GET", "/absent").await), (404, "NoSuchBucket"));
    let listed = alice.request("GET", "/").send().await;
    assert_eq!(listed.xml_all("Name"), ["of-alice"]);
    assert_eq!(listed.xml_all("ID"), [alice.id.as_str()]);
    assert!(bob.request("GET", "/").send().await.xml_all("Name").is_empty());
    // Root is the operator: it sees and may do everything.
    assert_eq!(stage.request("GET", "/").send().await.xml_all("Name"), ["bucket", "of-alice"]);
    assert_eq!(stage.request("GET", "/of-alice/key").send().await.body, b"hers");
}

#[tokio::test]
async fn a_copy_needs_its_source_as_well() {
    let stage = Stage::start().await;
    let (alice, bob) = (stage.user("alice").await, stage.user("bob").await);
    assert_eq!(alice.asks("PUT", "/of-alice").await.0, 200);
    assert_eq!(alice.request("PUT", "/of-alice/key").body("hers").send().await.status, 200);
    assert_eq!(bob.asks("PUT", "/of-bob").await.0, 200);
    let copy = bob.request("PUT", "/of-bob/key").header("x-amz-copy-source", "/of-alice/key");
    assert_eq!(copy.send().await.refusal(), (403, "AccessDenied".to_owned()));
    let upload = bob.request("POST", "/of-bob/big?uploads").send().await.xml("UploadId").expect("an id");
    let part = bob.request("PUT", &format!("/of-bob/big?partNumber=1&uploadId={upload}"));
    let part = part.header("x-amz-copy-source", "/of-alice/key");
    assert_eq!(part.send().await.refusal(), (403, "AccessDenied".to_owned()));
    let own = alice.request("PUT", "/of-alice/copy").header("x-amz-copy-source", "/of-alice/key");
    assert_eq!(own.send().await.status, 200);
}

#[tokio::test]
async fn an_expected_owner_is_held_against_the_buckets() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    assert_eq!(alice.asks("PUT", "/of-alice").await.0, 200);
    let expecting = |owner: &str| alice.request("GET", "/of-alice").header("x-amz-expected-bucket-owner", owner);
    assert_eq!(expecting(&alice.account).send().await.status, 200);
    assert_eq!(expecting(&alice.id).send().await.status, 200);
    assert_eq!(expecting("111122223333").send().await.refusal(), (403, "AccessDenied".to_owned()));
    let root = stage.request("GET", "/of-alice").header("x-amz-expected-bucket-owner", &alice.account);
    assert_eq!(root.send().await.status, 200, "the bucket's owner is meant, not the caller");
}

#[tokio::test]
async fn keys_are_disabled_expired_and_deleted_at_once() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    let refused = (403, "InvalidAccessKeyId".to_owned());
    let allowed = || async { alice.asks("GET", "/").await.0 == 200 };
    assert!(allowed().await);
    stage.lobgate(&["key", "disable", "alice"]).await;
    eventually("the key is refused", || async { alice.asks("GET", "/").await == refused }).await;
    stage.lobgate(&["key", "enable", "alice"]).await;
    eventually("the key is accepted", allowed).await;
    stage.lobgate(&["key", "expire", "alice", "--at", "1s"]).await;
    eventually("the key has ended", || async { alice.asks("GET", "/").await == refused }).await;
    assert!(stage.lobgate(&["key", "list"]).await.contains("expired"));
    stage.lobgate(&["key", "expire", "alice", "--never"]).await;
    eventually("the key lives on", allowed).await;
    stage.lobgate(&["key", "delete", "alice"]).await;
    eventually("the key is gone", || async { alice.asks("GET", "/").await == refused }).await;
    assert_eq!(stage.request("GET", "/").credentials("nobody", "x").send().await.refusal(), refused);
}

#[tokio::test]
async fn a_key_shows_when_it_was_used_last() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    assert!(stage.lobgate(&["key", "list", "--user", "alice"]).await.contains("last used -"));
    assert_eq!(alice.asks("GET", "/").await.0, 200);
    eventually("the use is noted", || async {
        !stage.lobgate(&["key", "list", "--user", "alice"]).await.contains("last used -")
    })
    .await;
}

#[tokio::test]
async fn secrets_are_encrypted_and_random_keys_work() {
    let stage = Stage::start().await;
    stage.lobgate(&["user", "create", "carol"]).await;
    let made = stage.lobgate(&["key", "create", "--user", "carol", "--expires", "1h"]).await;
    let value = |name: &str| made.lines().find_map(|l| l.strip_prefix(name)).expect("a value").trim().to_owned();
    let (access_key, secret) = (value("access key:"), value("secret key:"));
    assert_eq!(stage.request("GET", "/").credentials(&access_key, &secret).send().await.status, 200);
    let wrong = stage.request("GET", "/").credentials(&access_key, "another secret").send().await;
    assert_eq!(wrong.refusal(), (403, "SignatureDoesNotMatch".to_owned()));
    let plain = format!("SELECT count(*) FROM lobgate.access_key WHERE position('{secret}'::bytea in secret) > 0");
    assert_eq!(stage.database.count(&plain).await, 0);
    assert!(!stage.lobgate(&["key", "list"]).await.contains(&secret));
    assert!(!stage.gateway.log().contains(&secret));
    // Whoever can write to the database cannot give a key another's secret.
    stage.user("dave").await;
    let swap =
        "UPDATE lobgate.access_key a SET secret = b.secret FROM lobgate.access_key b WHERE b.access_key = 'dave'";
    stage.database.execute(swap).await;
    let swapped = || async { stage.request("GET", "/").credentials(&access_key, "secret-of-a-user").send().await };
    assert_eq!(swapped().await.status, 403);
}

#[tokio::test]
async fn commands_say_what_is_wrong() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    assert_eq!(alice.asks("PUT", "/of-alice").await.0, 200);
    for (arguments, code, sentence) in [
        (&["user", "create", "alice"][..], 1, "user alice exists already"),
        (&["user", "create", "a b"], 2, "a name is"),
        (&["user", "delete", "alice"], 1, "still owns buckets"),
        (&["user", "delete", "nobody"], 1, "there is no user nobody"),
        (&["key", "create", "--user", "nobody"], 1, "there is no user nobody"),
        (&["key", "create", "--user", "alice", "--access-key", "abc", "--secret-key", "short"], 2, "8 to 128"),
        (&["key", "create", "--user", "alice", "--access-key", "abc"], 2, "--secret-key"),
        (
            &["key", "create", "--user", "alice", "--access-key", "alice", "--secret-key", "12345678"],
            1,
            "exists already",
        ),
        (
            &["key", "create", "--user", "alice", "--access-key", "LOBGATETESTROOT", "--secret-key", "12345678"],
            2,
            "root's",
        ),
        (&["key", "disable", "nokey"], 1, "there is no access key nokey"),
        (&["group", "add", "nogroup", "alice"], 1, "there is no group nogroup"),
        (&["policy", "attach", "nopolicy", "--user", "alice"], 1, "there is no policy nopolicy"),
        (&["policy", "attach", "nopolicy"], 2, "--user"),
        (&["policy", "put", "p", "/nowhere.json"], 2, "/nowhere.json"),
    ] {
        let done = run(&stage.database.url(), arguments).await;
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {}", text(&done));
        assert!(text(&done).contains(sentence), "{arguments:?}: {}", text(&done));
    }
    assert_eq!(stage.database.count("SELECT count(*) FROM lobgate.access_key").await, 1);
}

#[tokio::test]
async fn another_encryption_key_is_refused_in_one_sentence() {
    let stage = Stage::start().await;
    stage.user("alice").await;
    let mut command = crate::harness::server::lobgate(&["key", "create", "--user", "alice"]);
    command.args(["--database-url", &stage.database.url()]);
    command.env("LOBGATE_AUTH_ENCRYPTION_KEY", "another-key-that-is-long-enough-for-this");
    let done = command.output().expect("run lobgate");
    assert_eq!(done.status.code(), Some(1), "{}", text(&done));
    assert!(text(&done).contains("auth.encryption_key"), "{}", text(&done));
}

#[tokio::test]
async fn a_name_means_one_user_and_none_that_comes_later() {
    let stage = Stage::start().await;
    let dave = stage.user("dave").await;
    let policy = |principal: &str| {
        let text = format!(
            r#"{{"Statement":[{{"Effect":"Allow","Principal":{{"AWS":"{principal}"}},"Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*"}}]}}"#
        );
        stage.request("PUT", "/bucket?policy").body(text)
    };
    stage.put("k", b"x").await;
    for wrong in ["arn:aws:iam::999999999999:user/dave", "arn:aws:iam:::user/user/dave", "arn:aws:iam:::group/dave"] {
        assert_eq!(outcome(&policy(wrong).send().await.refusal()), (400, "MalformedPolicy"), "{wrong}");
    }
    for name in ["dave", "arn:aws:iam:::user/dave"] {
        assert_eq!(policy(name).send().await.status, 204, "{name}");
        let stored = stage.request("GET", "/bucket?policy").send().await.text();
        assert!(stored.contains(":user/dave") && !stored.contains(":::user"), "{stored}");
        assert_eq!(dave.request("GET", "/bucket/k").send().await.status, 200, "{name}");
    }
    stage.lobgate(&["key", "delete", "dave"]).await;
    stage.lobgate(&["user", "delete", "dave"]).await;
    let again = stage.user("dave").await;
    assert_eq!(again.asks("GET", "/bucket/k").await.0, 403, "another dave");
}

#[tokio::test]
async fn names_and_access_keys_are_not_mixed_up() {
    let stage = Stage::start().await;
    stage.user("alice").await;
    let fails = async |arguments: &[&str], says: &str| {
        let output = run(&stage.database.url(), arguments).await;
        let said = text(&output);
        assert!(!output.status.success() && said.contains(says), "{arguments:?}: {said}");
    };
    stage.lobgate(&["key", "create", "--user", "alice", "--access-key", "AKALICE", "--secret-key", "12345678"]).await;
    fails(&["user", "create", "AKALICE"], "exists already").await;
    stage.lobgate(&["user", "create", "bob"]).await;
    fails(&["key", "create", "--user", "alice", "--access-key", "bob", "--secret-key", "12345678"], "exists already")
        .await;
    fails(&["key", "list", "--user", "zed"], "there is no user zed").await;
    fails(&["key", "expire", "AKALICE"], "--never").await;
    fails(&["key", "expire", "AKALICE", "--at", "2020-01-01"], "over already").await;
    stage.lobgate(&["key", "expire", "AKALICE", "--at", "2130-01-01"]).await;
    assert!(stage.lobgate(&["key", "list", "--user", "alice"]).await.contains("expires 2130-01-01T00:00:00Z"));
    stage.lobgate(&["key", "expire", "AKALICE", "--never"]).await;

    let file = tempfile::NamedTempFile::new().expect("a file");
    let nothing = r#"{"Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}"#;
    std::fs::write(file.path(), nothing).expect("write");
    stage.lobgate(&["policy", "put", "reading", file.path().to_str().expect("a path")]).await;
    stage.lobgate(&["group", "create", "readers"]).await;
    stage.lobgate(&["group", "add", "readers", "alice"]).await;
    stage.lobgate(&["policy", "attach", "reading", "--group", "readers"]).await;
    fails(&["group", "delete", "readers"], "has members and policies").await;
    stage.lobgate(&["group", "remove", "readers", "alice"]).await;
    stage.lobgate(&["group", "delete", "readers"]).await;
}
