//! The table of features in the README, made from here: what lobgate answers, and which tests show it. A row names tests that
//! exist, so none claims what no test shows; what the suite does not pass, the table does not say.
//!
//! What other servers do was read from their sources and their own test suites as of the versions named in the README.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What lobgate does.
enum Here {
    Yes,
    /// Yes, with this to be said.
    But(&'static str),
    /// Refused with this.
    Refused(&'static str),
}
use Here::{But, Refused, Yes};

/// A feature, what lobgate does, the tests that show it, and what MinIO, Garage, SeaweedFS, RustFS and Ceph do.
type Row = (&'static str, Here, &'static [&'static str], [&'static str; 5]);

const PEERS: [&str; 5] = ["MinIO", "Garage", "SeaweedFS", "RustFS", "Ceph"];
const NO_TABLE: &str = "501 NotImplemented";

// A row is a line.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("Create, head, list, delete buckets", Yes, &["buckets::a_bucket_is_created_found_listed_and_deleted", "buckets::buckets_are_listed_by_prefix_and_in_pages"], ["yes"; 5]),
    ("Put, get, head, delete objects; DeleteObjects", Yes, &["objects::objects_of_every_size_come_back_byte_exact_and_leave_nothing_behind", "objects::delete_objects_deletes_each_and_names_each_unless_quiet"], ["yes"; 5]),
    ("ListObjects, ListObjectsV2 with delimiters", Yes, &["listing_model::listings_agree_with_a_sorted_map", "listing::a_delimiter_folds_keys_into_common_prefixes"], ["yes"; 5]),
    ("Any key: bytes, control characters, dots, slashes", Yes, &["keys::every_kind_of_key_is_put_got_listed_copied_and_deleted"], ["?"; 5]),
    ("Ranges, part numbers", Yes, &["ranges::ranges_at_and_across_every_edge_are_byte_exact", "ranges::a_part_number_reads_that_part"], ["?"; 5]),
    ("Multipart uploads", Yes, &["multipart::parts_sent_in_any_order_become_one_object_without_moving_a_byte", "multipart::completing_twice_gives_the_same_answer"], ["yes"; 5]),
    ("ListParts, ListMultipartUploads", Yes, &["multipart_listing::parts_are_listed_in_pages", "multipart_listing::uploads_under_way_are_listed_by_key_and_age_in_pages"], ["yes"; 5]),
    ("CopyObject, UploadPartCopy", But("yes, by reference"), &["copying::a_copy_shares_its_content_and_both_outlive_each_other", "copying::parts_are_copied_whole_or_by_range"], ["yes"; 5]),
    ("RenameObject", Yes, &["renaming::everything_goes_along_and_the_target_is_replaced", "renaming::conditions_hold_for_both_keys"], ["no", "no", "yes", "no", "no"]),
    ("GetObjectAttributes", Yes, &["metadata::get_object_attributes_returns_what_was_asked_for"], ["yes", "no", "yes", "yes", "yes"]),
    ("Conditional reads", Yes, &["conditions::reads_heed_every_condition_and_their_order_of_precedence"], ["?"; 5]),
    ("If-Match, If-None-Match on PutObject", But("yes, exactly one winner"), &["conditions::of_fifty_racing_creators_over_two_gateways_exactly_one_wins", "conditions::counters_kept_by_compare_and_swap_lose_no_increment"], ["yes", "no", "yes", "yes", "yes"]),
    ("… on CompleteMultipartUpload", Yes, &["multipart::completion_heeds_conditions_on_its_destination"], ["yes", "no", "yes", "yes", "yes"]),
    ("… on the destination of CopyObject", Yes, &["conditions::a_copy_heeds_the_conditions_on_its_source_and_its_destination"], ["no", "no", "yes", "partly", "yes"]),
    ("… on DeleteObject and DeleteObjects", Yes, &["conditions::delete_if_match_deletes_only_what_it_names", "conditions::a_batch_deletes_only_what_its_conditions_name"], ["no", "no", "yes", "no", "yes"]),
    ("CRC32, CRC32C, SHA1, SHA256, CRC64NVME", Yes, &["checksums::a_right_checksum_is_stored_and_returned_when_asked", "checksums::a_wrong_checksum_is_a_bad_digest_and_stores_nothing"], ["yes", "partly", "yes", "yes", "yes"]),
    ("MD5, SHA512, XXHASH3, XXHASH64, XXHASH128", Yes, &["checksums::a_right_checksum_is_stored_and_returned_when_asked"], ["no", "no", "?", "partly", "?"]),
    ("Full-object and composite checksums of uploads", Yes, &["part_checksums::composite_and_full_object_checksums_come_from_the_parts", "part_checksums::a_full_object_checksum_declared_on_completion_is_verified"], ["yes", "?", "yes", "yes", "yes"]),
    ("aws-chunked bodies, signed and with trailers", Yes, &["streaming::chunked_bodies_of_any_chunk_size_come_out_whole", "auth::signed_chunks_are_verified_one_by_one", "checksums::checksums_in_trailers_are_verified_like_those_in_headers"], ["yes"; 5]),
    ("Presigned URLs", Yes, &["auth::a_presigned_url_serves_until_it_expires_and_never_longer_than_seven_days"], ["yes"; 5]),
    ("SigV2", But("off by default"), &["sigv2::legacy_signatures_are_accepted_where_they_are_switched_on", "auth::older_and_broken_authorizations_are_refused"], ["?"; 5]),
    ("POST forms with policies", Yes, &["post_forms::a_signed_form_stores_its_file_and_answers_as_it_asks", "post_forms::what_the_policy_does_not_allow_is_not_stored"], ["yes"; 5]),
    ("Virtual-host addressing", Yes, &["buckets::a_bucket_can_be_addressed_by_its_host_name"], ["yes"; 5]),
    ("Versioning, ListObjectVersions", Yes, &["versions::every_write_of_a_versioned_bucket_is_kept_under_its_own_id", "versions::suspended_versioning_replaces_the_null_version_alone", "version_listing::pages_of_every_size_hold_every_version_once"], ["yes", "no", "yes", "yes", "yes"]),
    ("MFA delete", Refused(NO_TABLE), &["versions::versioning_configurations_are_checked"], ["?"; 5]),
    ("Object lock, retention, legal hold", But("yes, kept by the database"), &["object_lock::a_retained_version_is_not_deleted_by_any_path", "object_lock::a_legal_hold_keeps_a_version_until_it_is_lifted"], ["yes", "no", "yes", "yes", "yes"]),
    ("Tags of objects and buckets", Yes, &["tagging::tags_come_with_an_object_or_later_and_change_nothing_else", "bucket_settings::buckets_have_tags"], ["yes", "no", "yes", "yes", "yes"]),
    ("Lifecycle: expiration, past versions, uploads", Yes, &["lifecycle::objects_expire_by_prefix_tag_and_size", "lifecycle::the_newest_past_versions_are_kept", "lifecycle::uploads_are_aborted_when_their_days_have_passed"], ["yes", "partly", "yes", "partly", "yes"]),
    ("Lifecycle: transitions", Refused(NO_TABLE), &["lifecycle::rules_that_say_nothing_or_too_much_are_refused"], ["?"; 5]),
    ("CORS", Yes, &["cors::a_preflight_is_answered_by_the_first_rule_that_fits", "cors::answers_to_pages_of_other_origins_say_who_may_read_them_errors_included"], ["no", "yes", "yes", "yes", "yes"]),
    ("Bucket policy, policy status", Yes, &["policies::anonymous_and_other_users_get_what_the_policy_allows_and_no_more", "policies::conditions_see_the_request_and_the_object"], ["yes", "no", "yes", "yes", "yes"]),
    ("Public access block", Yes, &["policies::a_public_access_block_keeps_the_public_out"], ["no", "no", "no", "yes", "yes"]),
    ("Object ownership, access control lists", Yes, &["acls::canned_lists_grant_what_they_say", "acls::grants_by_header_and_by_document", "acls::preferred_owners_get_what_is_granted_to_them"], ["no", "no", "partly", "partly", "yes"]),
    ("Users, groups, keys, attached policies", Yes, &["users::users_own_their_buckets_and_see_nobody_elses", "policies::policies_of_users_and_groups_take_effect_at_once_on_every_gateway"], ["yes", "partly", "yes", "yes", "yes"]),
    ("Encryption (SSE-S3, SSE-C, SSE-KMS)", Refused(NO_TABLE), &["errors::encryption_is_refused_wherever_it_is_asked_for"], ["yes", "partly", "yes", "partly", "yes"]),
    ("Requester pays", But("required, charges nothing"), &["bucket_settings::where_the_requester_pays_nobody_gets_in_without_saying_so"], ["?", "?", "?", "?", "?"]),
    ("Website, logging, notifications, replication, accelerate, inventory, analytics", But("read and removed: what was never set; set: 501 NotImplemented"), &["bucket_settings::what_is_not_configured_is_answered_as_s3_does_and_cannot_be_set", "bucket_settings::what_is_not_configured_can_be_removed_and_set_to_what_holds_anyway"], ["partly", "partly", "?", "partly", "partly"]),
    ("Select, torrent, restore", Refused(NO_TABLE), &["errors::sub_resources_that_lobgate_does_not_have_are_not_implemented"], ["?"; 5]),
    ("Bytes and index in one backup, point-in-time recovery", Yes, &["faults::backups::a_dump_restored_elsewhere_has_every_byte_and_goes_on", "faults::backups::a_base_backup_is_recovered_to_a_point_in_time"], ["no"; 5]),
];

const BEGIN: &str = "<!-- features: made by tests/features.rs -->\n";
const END: &str = "<!-- end of features -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The file of a test's module.
fn file_of(module: &str) -> PathBuf {
    root().join("tests").join(format!("{module}.rs"))
}

fn table() -> String {
    let mut table = String::from("| | lobgate | shown by |");
    for peer in PEERS {
        let _ = write!(table, " {peer} |");
    }
    table.push_str("\n|---|---|---|---|---|---|---|---|\n");
    for (feature, here, tests, peers) in ROWS {
        let here = match here {
            Yes => "**yes**",
            But(said) | Refused(said) => said,
        };
        let mut modules: Vec<_> = tests.iter().map(|test| path_of(test)).collect();
        modules.dedup();
        let links: Vec<_> = modules.iter().map(|path| format!("[{path}](tests/{path}.rs)")).collect();
        let _ = writeln!(table, "| {feature} | {here} | {} | {} |", links.join(", "), peers.join(" | "));
    }
    table
}

/// The path of a test's file below `tests`, without its ending.
fn path_of(test: &str) -> String {
    match test.split("::").collect::<Vec<_>>()[..] {
        ["faults", module, ..] => format!("faults/{module}"),
        [module, ..] => module.to_owned(),
        [] => String::new(),
    }
}

#[test]
fn every_row_names_tests_that_exist() {
    for (feature, _, tests, _) in ROWS {
        assert!(!tests.is_empty(), "{feature}: no test shows it");
        for test in *tests {
            let file = file_of(&path_of(test));
            let text = fs::read_to_string(&file).unwrap_or_default();
            assert!(text.contains("test]\n"), "{feature}: {} has no tests", file.display());
            let name = test.rsplit("::").next().unwrap_or_default();
            assert!(text.contains(&format!("fn {name}(")), "{feature}: there is no test {test}");
        }
    }
}

/// `UPDATE_README=1` writes the table.
#[test]
fn the_readme_has_this_table() {
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path).expect("README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("where the table begins");
    let (present, after) = rest.split_once(END).expect("where the table ends");
    if std::env::var_os("UPDATE_README").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).expect("README.md is written");
        return;
    }
    assert_eq!(present, table(), "run it with UPDATE_README=1");
}
