//! The command line: what operators ask, and the exit codes that their scripts rely on.

use crate::harness::server::{lobgate, run, text};
use crate::harness::{Stage, bytes};
use crate::multipart;

const BIG: usize = 100_000;

/// A store with an inline object, a large one and a multipart one, damaged by `damage` behind the gateway's back.
async fn verified_after(damage: &str) -> (bool, String) {
    let stage = Stage::start().await;
    stage.put("small", b"small").await;
    stage.put("large", &bytes(1, BIG)).await;
    multipart::upload(&stage, "parts", &[bytes(2, 5 << 20), bytes(3, BIG)]).await;
    if !damage.is_empty() {
        stage.database.execute(damage).await;
    }
    let verified = run(&stage.database.url(), &["verify"]).await;
    // 3 says that something is damaged, other codes that nobody knows.
    let code = verified.status.code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", text(&verified));
    (verified.status.success(), text(&verified))
}

const LARGE: &str =
    "(SELECT c.loid FROM lobgate.content c JOIN lobgate.object o ON o.content_id = c.id WHERE o.key = 'large')";

#[tokio::test]
async fn verify_finds_nothing_wrong_with_a_whole_store() {
    let (clean, report) = verified_after("").await;
    assert!(clean, "{report}");
}

#[tokio::test]
async fn verify_finds_a_byte_that_has_changed_in_a_large_object() {
    let (clean, report) =
        verified_after(&format!("SELECT lo_put({LARGE}, 5000, '\\x00'::bytea || '\\x01'::bytea)")).await;
    assert!(!clean, "{report}");
    assert!(report.contains("problem"), "{report}");
}

#[tokio::test]
async fn verify_finds_a_large_object_that_is_gone() {
    let (clean, report) = verified_after(&format!("SELECT lo_unlink({LARGE})")).await;
    assert!(!clean, "{report}");
    assert!(report.contains("problem"), "{report}");
}

#[tokio::test]
async fn verify_finds_a_large_object_that_is_too_short_or_too_long() {
    for size in [BIG - 1, BIG + 1] {
        let damage = format!("SELECT lo_truncate64(lo_open({LARGE}, 131072), {size})");
        let (clean, report) = verified_after(&damage).await;
        assert!(!clean, "{size}: {report}");
    }
}

#[tokio::test]
async fn verify_finds_a_damaged_inline_content_and_a_damaged_part() {
    let (clean, report) = verified_after("UPDATE lobgate.content SET inline = 'smell' WHERE inline = 'small'").await;
    assert!(!clean, "{report}");
    let part = "SELECT lo_put(c.loid, 0, '\\x0102030405060708') FROM lobgate.content c \
                JOIN lobgate.content_part p ON p.content_id = c.id WHERE p.part_number = 2";
    let (clean, report) = verified_after(part).await;
    assert!(!clean, "{report}");
}

#[tokio::test]
async fn verify_finds_a_large_object_without_an_owner() {
    let (_, report) = verified_after("SELECT lo_from_bytea(0, 'stray')").await;
    assert!(report.contains("sweep") || report.contains("owner") || report.contains("orphan"), "{report}");
}

#[tokio::test]
async fn every_subcommand_has_a_short_help_with_an_example() {
    let commands = ["serve", "gc", "sweep", "verify", "migrate", "check-config", "bench", "drill"];
    for command in commands {
        let help = lobgate(&[command, "--help"]).output().expect("run lobgate");
        let shown = text(&help);
        assert!(help.status.success(), "{command}: {shown}");
        assert!(shown.to_lowercase().contains("example"), "{command}: {shown}");
        assert!(shown.lines().count() < 80, "{command}: {} lines", shown.lines().count());
    }
}

#[tokio::test]
async fn what_is_not_known_is_refused() {
    for arguments in [&["nonsense"][..], &["serve", "--nonsense"], &["verify", "extra"]] {
        let refused = lobgate(arguments).output().expect("run lobgate");
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(!refused.stderr.is_empty(), "{arguments:?}");
    }
    let unknown = lobgate(&["check-config"]).env("LOBGATE_NO_SUCH_KEY", "1").output().expect("run lobgate");
    assert!(!unknown.status.success(), "{}", text(&unknown));
    assert!(text(&unknown).to_lowercase().contains("no_such_key"), "{}", text(&unknown));
}

#[tokio::test]
async fn the_admin_address_tells_health_and_metrics() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let get =
        async |path: &str| crate::harness::RawRequest::new(&stage.gateway.admin, "GET", path).anonymous().send().await;
    assert_eq!(get("/health/live").await.status, 200);
    assert_eq!(get("/health/ready").await.status, 200);
    let metrics = get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let text = metrics.text();
    let named = |prefix: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
        lines.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    let (typed, helped) = (named("# TYPE "), named("# HELP "));
    assert!(!typed.is_empty() && typed.iter().all(|name| helped.contains(name)), "every metric is explained: {text}");
    assert_eq!(get("/none").await.status, 404);
    let public = stage.request("GET", "/metrics").anonymous().send().await;
    assert_ne!(public.status, 200, "metrics are not told on the S3 address");
}
