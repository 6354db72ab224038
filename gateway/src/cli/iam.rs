//! What the commands about users, keys, groups and policies share: the names they take, and what they say of a change.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::storage::Storage;
use crate::storage::users::Change;

use super::WrongUsage;

/// Longest name of a user, group or policy (AWS: "IAM and STS character limits").
const NAME_MAX: usize = 64;

/// A name of a user, group or policy, as IAM takes them; none that could be taken for an account or a canonical id.
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
    let looks_like_an_id = [12, 64].contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit());
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(sound) || text == "root" || looks_like_an_id {
        return Err(format!("a name is 1 to {NAME_MAX} letters, digits or +=,.@_- and not root"));
    }
    Ok(text.to_owned())
}

/// An access key that is chosen.
pub(super) fn parse_access_key(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !(3..=128).contains(&text.len()) || !text.chars().all(sound) {
        return Err("an access key is 3 to 128 letters, digits or _-.".to_owned());
    }
    Ok(text.to_owned())
}

/// A point in time to come: RFC 3339, a day (its beginning, UTC), or a time from now (`90d`).
pub(super) fn parse_time(text: &str) -> Result<OffsetDateTime, String> {
    let day = format!("{text}T00:00:00Z");
    let dated = [text, &day].into_iter().find_map(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let at = match dated {
        Some(at) => at,
        None => {
            let ahead = crate::config::parse_duration(text).map_err(|_| {
                "give a day such as 2030-01-31, a time such as 2030-01-31T12:00:00Z, or how long from now, such as 90d"
                    .to_owned()
            })?;
            let ahead = Duration::try_from(ahead).map_err(|error| error.to_string())?;
            OffsetDateTime::now_utc().checked_add(ahead).ok_or_else(|| "that is too far ahead".to_owned())?
        }
    };
    if at <= OffsetDateTime::now_utc() {
        return Err("that is over already; lobgate key disable refuses a key at once".to_owned());
    }
    Ok(at)
}

/// A point in time in an answer.
pub(super) fn shown(at: Option<OffsetDateTime>) -> String {
    at.and_then(|at| at.replace_nanosecond(0).ok()?.format(&Rfc3339).ok()).unwrap_or_else(|| "-".to_owned())
}

/// A list in an answer.
pub(super) fn listed(names: &[String]) -> String {
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

/// Refuses the name of a user who is not there.
pub(super) async fn existing_user(storage: &Storage, name: &str) -> anyhow::Result<()> {
    match storage.find_user(name).await? {
        Some(user) if user.name == name => Ok(()),
        Some(_) | None => anyhow::bail!("there is no user {name}"),
    }
}

/// What a change that was not made means.
pub(super) fn told(change: Change, what: &str, in_use: &str) -> anyhow::Result<()> {
    match change {
        Change::Done => Ok(()),
        Change::Exists => anyhow::bail!("{what} exists already"),
        Change::Missing => anyhow::bail!("there is no {what}"),
        Change::InUse => anyhow::bail!("{what} {in_use}"),
    }
}

/// The text of a file, or of standard input for `-`.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
        .map_err(|error| WrongUsage(format!("{} cannot be read: {error}", path.display())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_iams() {
        assert!(parse_name("alice@example.org").is_ok() && parse_name("a").is_ok());
        for wrong in ["", "root", "a b", "a/b", "ä", "123456789012", &"a".repeat(64), &"x".repeat(65)] {
            assert!(parse_name(wrong).is_err(), "{wrong}");
        }
        assert!(
            parse_access_key("AKIA").is_ok() && parse_access_key("a/b").is_err() && parse_access_key("ab").is_err()
        );
    }

    #[test]
    fn times_are_dates_or_ahead_of_now() {
        assert_eq!(shown(parse_time("2030-01-31T00:00:00Z").ok()), "2030-01-31T00:00:00Z");
        assert!(parse_time("90d").is_ok_and(|at| at > OffsetDateTime::now_utc() + Duration::days(89)));
        assert_eq!(shown(parse_time("2130-01-31").ok()), "2130-01-31T00:00:00Z");
        assert!(parse_time("soon").is_err() && parse_time("0s").is_err() && parse_time("2020-01-01").is_err());
        assert_eq!(shown(None), "-");
    }
}
