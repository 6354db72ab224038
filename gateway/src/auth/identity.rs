//! Who sends requests: root, a user, or nobody that is known.
//!
//! Each user is an account of its own, as in S3 between accounts: it owns the buckets it creates. Root is the operator's:
//! it may do everything that no policy of a bucket denies.

use s3s::auth::SecretKey;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::storage::users::KeyHolder;

use super::policy::{Policy, PolicyError, PrincipalNames};

/// Who owns buckets and objects, as S3 shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// A canonical user id: 64 hexadecimal digits.
    pub id: String,
    /// A name for people.
    pub display_name: String,
}

impl Owner {
    /// Root. Its id does not depend on its key pair, so that a new pair owns what the old one did.
    #[must_use]
    pub fn root() -> Self {
        Self { id: hex::encode(Sha256::digest(b"lobgate:root")), display_name: "root".to_owned() }
    }
}

/// The account number that belongs to a canonical id: twelve digits.
#[must_use]
pub fn account_of(canonical_id: &str) -> String {
    let digest = Sha256::digest(canonical_id.as_bytes());
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{:012}", number % 1_000_000_000_000)
}

/// Somebody whose access key is known.
#[derive(Debug)]
pub struct Identity {
    /// As an owner.
    pub owner: Owner,
    /// Twelve digits.
    pub account: String,
    /// Whether it is root.
    pub is_root: bool,
    /// What policies may call it.
    pub names: PrincipalNames,
    /// The policies attached to it, its groups' included.
    pub policies: Vec<Policy>,
    /// When the access key ends by itself.
    pub expires_at: Option<OffsetDateTime>,
    /// The secret of the access key.
    pub secret: SecretKey,
}

impl Identity {
    /// Root, with a secret.
    #[must_use]
    pub fn root(access_key: &str, secret: SecretKey) -> Self {
        let owner = Owner::root();
        let account = account_of(&owner.id);
        let mut names = principal_names(&owner, &account, "root");
        names.names.push(access_key.to_owned());
        Self { owner, account, is_root: true, names, policies: Vec::new(), expires_at: None, secret }
    }

    /// A user by one of its keys.
    ///
    /// # Errors
    /// One of its policies cannot be read: it was stored by something else than lobgate.
    pub fn of_user(holder: KeyHolder, secret: SecretKey) -> Result<Self, PolicyError> {
        let owner = Owner { id: holder.user.canonical_id, display_name: holder.user.name };
        let account = holder.user.account;
        let mut names = principal_names(&owner, &account, &format!("user/{}", owner.display_name));
        names.names.extend(holder.access_keys);
        names.names.push(owner.display_name.clone());
        let policies = holder.policies.iter().map(|text| Policy::of_identity(text)).collect::<Result<_, _>>()?;
        Ok(Self { owner, account, is_root: false, names, policies, expires_at: holder.expires_at, secret })
    }

    /// Its ARN.
    #[must_use]
    pub fn arn(&self) -> String {
        let name = if self.is_root { "root".to_owned() } else { format!("user/{}", self.owner.display_name) };
        format!("arn:aws:iam::{}:{name}", self.account)
    }
}

/// Names of an account: its number, its ARNs.
pub(super) fn principal_names(owner: &Owner, account: &str, name: &str) -> PrincipalNames {
    let names = vec![
        account.to_owned(),
        format!("arn:aws:iam::{account}:root"),
        format!("arn:aws:iam::{account}:{name}"),
        // Clients of other servers know no account numbers.
        format!("arn:aws:iam:::{name}"),
        format!("arn:aws:iam:::user/{}", owner.id),
    ];
    PrincipalNames { canonical_id: owner.id.clone(), names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_looks_like_a_canonical_user_and_an_account_like_a_number() {
        let id = Owner::root().id;
        assert!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()));
        let account = account_of(&id);
        assert!(account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit()));
    }

    #[test]
    fn secrets_are_not_printed() {
        let identity = Identity::root("root", SecretKey::from("hidden-secret"));
        assert!(!format!("{identity:?}").contains("hidden"));
    }
}
