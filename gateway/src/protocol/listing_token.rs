//! Opaque continuation tokens: where a listing goes on.
//!
//! A token is base64url of a version byte, a CRC-32 and the last name listed. It holds no state of the gateway, so it
//! survives restarts and works on every gateway of the database. The checksum turns a mangled token into
//! `InvalidArgument` instead of a listing from a random place; it is no protection against forging, and none is needed:
//! a token grants nothing that `start-after` does not.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use s3s::{S3Result, s3_error};

const VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

/// The token that continues after `name`.
pub(super) fn encode(name: &str) -> String {
    let mut raw = Vec::with_capacity(1 + CHECKSUM_BYTES + name.len());
    raw.push(VERSION);
    raw.extend_from_slice(&checksum(name.as_bytes()));
    raw.extend_from_slice(name.as_bytes());
    URL_SAFE_NO_PAD.encode(raw)
}

/// The name that a token continues after.
pub(super) fn decode(token: &str) -> S3Result<String> {
    decode_name(token).ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

fn decode_name(token: &str) -> Option<String> {
    let raw = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (&version, rest) = raw.split_first()?;
    let (sum, name) = rest.split_at_checked(CHECKSUM_BYTES)?;
    let intact = version == VERSION && sum == checksum(name);
    if !intact || name.contains(&0) {
        return None;
    }
    String::from_utf8(name.to_vec()).ok()
}

fn checksum(name: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, name);
    let [.., a, b, c, d] = crc.to_be_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mangled_token_is_refused() {
        let token = encode("photos/2026/");
        let mut mangled = token.clone();
        mangled.replace_range(3..4, if token.as_bytes().get(3) == Some(&b'A') { "B" } else { "A" });
        for bad in ["", "x", "AAAA", "not base64!", mangled.as_str()] {
            assert!(decode(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn tokens_round_trip(name in "[^\0]{0,200}") {
            prop_assert_eq!(decode_name(&encode(&name)), Some(name));
        }

        #[test]
        fn decoding_never_panics(token in ".{0,80}") {
            let _ = decode(&token);
        }
    }
}
