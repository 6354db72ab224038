//! Imports run one way: the protocol knows no SQL, the engine no HTTP, the database layer nothing above it.

use std::fs;
use std::path::{Path, PathBuf};

/// A layer, and what none of its files may import.
const RULES: &[(&str, &[&str])] = &[
    ("protocol", &["crate::db", "storage::index", "storage::content", "tokio_postgres", "deadpool_postgres"]),
    ("auth", &["tokio_postgres", "deadpool_postgres", "storage::index", "storage::content"]),
    (
        "storage",
        &["s3s", "http", "hyper", "axum", "crate::protocol", "crate::server", "crate::auth", "crate::gc", "crate::cli"],
    ),
    (
        "db",
        &[
            "s3s",
            "http",
            "hyper",
            "axum",
            "crate::storage",
            "crate::protocol",
            "crate::server",
            "crate::auth",
            "crate::gc",
            "crate::cli",
            "crate::admin",
        ],
    ),
    ("config", &["s3s", "hyper", "crate::storage", "crate::protocol", "crate::server", "crate::gc"]),
    ("server", &["tokio_postgres", "storage::index", "storage::content"]),
    ("admin", &["tokio_postgres", "storage::index", "storage::content", "s3s"]),
    ("bench", &["s3s", "axum", "crate::protocol", "crate::server", "crate::auth", "crate::admin", "crate::cli"]),
    ("drills", &["s3s", "axum", "crate::protocol", "crate::server", "crate::auth", "crate::admin", "crate::cli"]),
];

/// Measuring and breaking stand at the side: only the command line knows of them, and drills use what bench has.
const MAY_MEASURE: &[&str] = &["bench", "drills", "cli"];
const MAY_BREAK: &[&str] = &["drills", "cli"];

/// Only these may reach into the engine's two lower halves.
const MAY_USE_HALVES: &[&str] = &["storage", "gc"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The `use` statements of a file, nested ones flattened to one path per name, and paths written out in code.
fn imports(text: &str) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for statement in code.split("use ").skip(1) {
        let statement: String = statement.split(';').next().unwrap_or("").split_whitespace().collect();
        expand("", &statement, &mut found);
    }
    let written =
        code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).filter(|word| word.contains("::"));
    found.extend(written.map(|word| word.trim_matches(':').to_owned()));
    found
}

fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        found.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{head}");
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[start..], found);
}

fn names(import: &str, forbidden: &str) -> bool {
    let import = import.trim_start_matches("::");
    let rooted = import == forbidden || import.starts_with(&format!("{forbidden}::"));
    // `storage::index` is also meant where it stands behind `crate::` or `super::`.
    let inner = forbidden.contains("::") && format!("::{import}::").contains(&format!("::{forbidden}::"));
    rooted || inner
}

#[test]
fn no_layer_imports_what_lies_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(!files.is_empty());
    let mut offences = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).expect("below the root").to_owned();
        let layer = inside.iter().next().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let found = imports(&fs::read_to_string(&file).expect("a source file"));
        let rules = RULES.iter().filter(|(name, _)| *name == layer).flat_map(|(_, forbidden)| forbidden.iter());
        let mut forbidden: Vec<&str> = rules.copied().collect();
        if !MAY_USE_HALVES.contains(&layer.as_str()) {
            forbidden.extend(["storage::index", "storage::content"]);
        }
        if !MAY_MEASURE.contains(&layer.as_str()) {
            forbidden.push("crate::bench");
        }
        if !MAY_BREAK.contains(&layer.as_str()) {
            forbidden.push("crate::drills");
        }
        for import in &found {
            if forbidden.iter().any(|name| names(import, name)) {
                offences.push(format!("{}: {import}", inside.display()));
            }
        }
    }
    offences.sort();
    offences.dedup();
    assert!(offences.is_empty(), "imports against the grain:\n{}", offences.join("\n"));
}

#[test]
fn nested_imports_are_seen() {
    let text = "use crate::{db::{Db, error::*}, storage};\nfn f() { tokio_postgres::connect() } // use hyper::x;";
    let found = imports(text);
    for name in ["crate::db", "tokio_postgres", "crate::storage"] {
        assert!(found.iter().any(|import| names(import, name)), "{name} in {found:?}");
    }
    assert!(!found.iter().any(|import| names(import, "hyper")), "comments import nothing: {found:?}");
    assert!(names("crate::storage::index::objects", "storage::index"));
    assert!(!names("http_body::Body", "http"));
}

#[test]
fn test_files_say_what_they_are_for_and_stay_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests");
    let mut files = Vec::new();
    sources(&root, &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("a test file");
        assert!(text.starts_with("//! "), "{} has no opening comment", file.display());
        assert!(text.lines().count() < 400, "{} is too long", file.display());
    }
}
