//! The clients that people use: aws cli, rclone and boto3, as programs, against the built binary.
//!
//! They are looked for in `LOBGATE_TEST_CLIENTS` and then in PATH. A missing one fails its test, unless
//! `LOBGATE_TEST_ALLOW_MISSING_CLIENTS=1` says that the machine is known to lack it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::inspect::{assert_consistent, until_reclaimed};
use crate::harness::server::{ACCESS_KEY, SECRET_KEY};
use crate::harness::{Stage, bytes};

/// The program, or nothing if it may be missing.
fn find(program: &str, mend: &str) -> Option<PathBuf> {
    let own = std::env::var_os("LOBGATE_TEST_CLIENTS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = own
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join(program))
        .find(|file| file.exists());
    let may_miss = std::env::var_os("LOBGATE_TEST_ALLOW_MISSING_CLIENTS").is_some_and(|value| value == "1");
    assert!(
        found.is_some() || may_miss,
        "{program} is missing: {mend}, or set LOBGATE_TEST_ALLOW_MISSING_CLIENTS=1 to go without"
    );
    found
}

/// Runs a client to its end and returns what it wrote to stdout.
async fn client(stage: &Stage, program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if name.starts_with("AWS_") || name.starts_with("RCLONE_") || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    if program.ends_with("aws") {
        // Older versions do not know AWS_ENDPOINT_URL.
        command.args(["--endpoint-url", &stage.gateway.endpoint]);
    }
    command
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", &stage.gateway.endpoint)
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_MAX_ATTEMPTS", "1")
        .env("RCLONE_CONFIG", "/dev/null")
        .env("RCLONE_CONFIG_LOB_TYPE", "s3")
        .env("RCLONE_CONFIG_LOB_PROVIDER", "Other")
        .env("RCLONE_CONFIG_LOB_ACCESS_KEY_ID", ACCESS_KEY)
        .env("RCLONE_CONFIG_LOB_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("RCLONE_CONFIG_LOB_REGION", "us-east-1")
        .env("RCLONE_CONFIG_LOB_ENDPOINT", &stage.gateway.endpoint);
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("a thread").expect("run the client");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} {arguments:?}:\n{out}{err}", program.display());
    out.into_owned()
}

/// A directory tree with files of every kind.
fn tree(root: &Path) {
    let files: &[(&str, usize)] = &[
        ("empty", 0),
        ("one", 1),
        ("dir/inline", 60_000),
        ("dir/large", 300_000),
        ("dir/sub/with space + plus", 2048),
        ("dir/sub/ümlaut é 日本.txt", 2049),
        ("dir/sub/100% & <more> 'quotes'", 10),
        ("multipart", 13 << 20),
    ];
    for (seed, (name, size)) in (0..).zip(files) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes(seed, *size)).expect("a file");
    }
}

fn files(root: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(below).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(root, &path, found);
        } else {
            let name = path.strip_prefix(root).expect("below the root").to_owned();
            found.insert(name, fs::read(path).expect("a file"));
        }
    }
}

fn assert_same(left: &Path, right: &Path) {
    let (mut a, mut b) = (BTreeMap::new(), BTreeMap::new());
    files(left, left, &mut a);
    files(right, right, &mut b);
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, data) in a {
        assert!(b[&name] == data, "{}", name.display());
    }
}

fn text(path: &impl AsRef<OsStr>) -> &str {
    path.as_ref().to_str().expect("UTF-8")
}

#[tokio::test]
async fn aws_cli_syncs_a_tree_up_and_down() {
    let Some(aws) = find("aws", "install it with `pip install awscli`") else {
        return;
    };
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let (up, down) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    tree(up.path());
    client(&stage, &aws, &["s3", "mb", "s3://second"]).await;
    client(&stage, &aws, &["s3", "sync", "--no-progress", text(&up.path()), "s3://bucket/tree"]).await;
    let again = client(&stage, &aws, &["s3", "sync", "--dryrun", text(&up.path()), "s3://bucket/tree"]).await;
    assert_eq!(again, "", "a second sync finds nothing to do");
    client(&stage, &aws, &["s3", "sync", "--no-progress", "s3://bucket/tree", text(&down.path())]).await;
    assert_same(up.path(), down.path());
    client(&stage, &aws, &["s3", "cp", "--no-progress", "--recursive", "s3://bucket/tree", "s3://second/copy"]).await;
    let listed = client(&stage, &aws, &["s3", "ls", "--recursive", "s3://second"]).await;
    assert_eq!(listed.lines().count(), 8, "{listed}");
    client(&stage, &aws, &["s3", "rb", "--force", "s3://second"]).await;
    client(&stage, &aws, &["s3", "rm", "--recursive", "s3://bucket/tree"]).await;
    until_reclaimed(&stage.database).await;
    crate::harness::inspect::assert_empty(&stage.database).await;
}

#[tokio::test]
async fn rclone_copies_a_tree_and_checks_every_byte() {
    let Some(rclone) = find("rclone", "install the package rclone") else {
        return;
    };
    let stage = Stage::start().await;
    let up = tempfile::tempdir().expect("a directory");
    tree(up.path());
    let remote = "lob:bucket/tree";
    let sizes = ["--s3-upload-cutoff", "6M", "--s3-chunk-size", "5M"];
    client(&stage, &rclone, &[&["copy", text(&up.path()), remote], &sizes[..]].concat()).await;
    client(&stage, &rclone, &["check", "--download", text(&up.path()), remote]).await;
    client(&stage, &rclone, &["check", text(&up.path()), remote]).await;
    client(&stage, &rclone, &["moveto", "lob:bucket/tree/one", "lob:bucket/tree/dir/moved"]).await;
    let listed = client(&stage, &rclone, &["lsf", "-R", "--files-only", remote]).await;
    assert!(listed.contains("dir/moved") && !listed.lines().any(|line| line == "one"), "{listed}");
    client(&stage, &rclone, &["purge", remote]).await;
    assert_eq!(stage.database.count("SELECT count(*) FROM lobgate.object").await, 0);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_boto3_program_finds_s3_as_it_knows_it() {
    let Some(python) = find("python3", "install python3 and boto3") else {
        return;
    };
    let has_boto3 = Command::new(&python).args(["-c", "import boto3"]).output().is_ok_and(|done| done.status.success());
    let may_miss = std::env::var_os("LOBGATE_TEST_ALLOW_MISSING_CLIENTS").is_some_and(|value| value == "1");
    assert!(has_boto3 || may_miss, "boto3 is missing: install it with `pip install boto3`");
    if has_boto3 {
        let stage = Stage::start().await;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/boto3_smoke.py");
        client(&stage, &python, &[text(&script), &stage.gateway.endpoint]).await;
        assert_consistent(&stage.database).await;
    }
}
