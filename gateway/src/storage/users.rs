//! Users, their access keys, groups and policies, and who may do what in a bucket: as they are stored.
//!
//! The engine keeps them beside the buckets and gives them no meaning: secrets are encrypted and documents are checked
//! before they get here. Whoever remembers an answer has to forget it when the channel [`ACCESS_CHANNEL`] says so.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::Storage;
use super::error::Result;
use super::index::users;
use super::types::BucketName;

/// On this channel every change to users, keys, policies, and settings of buckets is announced.
pub const ACCESS_CHANNEL: &str = "lobgate_access";

/// A user: an account of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name, unique.
    pub name: String,
    /// 64 hexadecimal digits; never given out again.
    pub canonical_id: String,
    /// Twelve digits.
    pub account: String,
    /// When it was created.
    pub created_at: OffsetDateTime,
}

/// An access key as it is shown: without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// Its public part.
    pub access_key: String,
    /// Name of its user.
    pub user: String,
    /// Whether it was not disabled.
    pub enabled: bool,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// When it ends by itself.
    pub expires_at: Option<OffsetDateTime>,
    /// When it was used last, to some seconds.
    pub last_used_at: Option<OffsetDateTime>,
}

/// Everything that a request with an access key needs to know of its user.
#[derive(Clone, Debug)]
pub struct KeyHolder {
    /// The user.
    pub user: User,
    /// The secret, encrypted.
    pub secret: Vec<u8>,
    /// Whether the key was not disabled.
    pub enabled: bool,
    /// When it ends by itself.
    pub expires_at: Option<OffsetDateTime>,
    /// All access keys of the user.
    pub access_keys: Vec<String>,
    /// The policies attached to the user and to its groups.
    pub policies: Vec<String>,
}

/// What decides who may do what in a bucket.
#[derive(Clone, Debug)]
pub struct BucketAccess {
    /// Canonical id of its owner.
    pub owner: String,
    /// The owner, where it is a user.
    pub owner_name: Option<String>,
    /// Account of the owner, where it is a user.
    pub owner_account: Option<String>,
    /// Its settings by kind.
    pub settings: BTreeMap<String, String>,
}

/// Whether something was done, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is done.
    Done,
    /// Something of that name exists.
    Exists,
    /// What is to be changed, or what it refers to, does not exist.
    Missing,
    /// It is still in use.
    InUse,
}

impl Storage {
    /// Who holds an access key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn key_holder(&self, access_key: &str) -> Result<Option<KeyHolder>> {
        Ok(users::key_holder(&self.db, access_key).await?)
    }

    /// What decides about a bucket; `None`: it does not exist.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn bucket_access(&self, bucket: &BucketName) -> Result<Option<BucketAccess>> {
        Ok(users::bucket_access(&self.db, bucket).await?)
    }

    /// Notes that access keys were used now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn note_use(&self, access_keys: &[String]) -> Result<()> {
        Ok(users::note_use(&self.db, access_keys).await?)
    }

    /// Creates a user. Its name may be nobody's, and nobody's access key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn create_user(&self, name: &str, canonical_id: &str, account: &str) -> Result<Change> {
        Ok(users::create_user(&self.db, name, canonical_id, account).await?)
    }

    /// Deletes a user that owns no bucket, with its access keys.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_user(&self, name: &str) -> Result<Change> {
        Ok(users::delete_user(&self.db, name).await?)
    }

    /// All users by name, each with the policies attached to it and its groups.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn users(&self) -> Result<Vec<(User, Vec<String>, Vec<String>)>> {
        Ok(users::users(&self.db).await?)
    }

    /// Finds a user by any of its names: its own, its canonical id, its account, one of its access keys.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn find_user(&self, name: &str) -> Result<Option<User>> {
        Ok(users::find_user(&self.db, name).await?)
    }

    /// Stores an access key of a user. It may be nobody's, and no other user's name.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn create_key(
        &self,
        user: &str,
        access_key: &str,
        secret: &[u8],
        expires_at: Option<OffsetDateTime>,
    ) -> Result<Change> {
        Ok(users::create_key(&self.db, user, access_key, secret, expires_at).await?)
    }

    /// Access keys, of one user or of all.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn keys(&self, user: Option<&str>) -> Result<Vec<AccessKey>> {
        Ok(users::keys(&self.db, user).await?)
    }

    /// A secret, encrypted: to see whether it can be read.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn any_secret(&self) -> Result<Option<(String, Vec<u8>)>> {
        Ok(users::any_secret(&self.db).await?)
    }

    /// Enables or disables an access key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn enable_key(&self, access_key: &str, enabled: bool) -> Result<Change> {
        Ok(users::enable_key(&self.db, access_key, enabled).await?)
    }

    /// Lets an access key end at a time, or never.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn expire_key(&self, access_key: &str, expires_at: Option<OffsetDateTime>) -> Result<Change> {
        Ok(users::expire_key(&self.db, access_key, expires_at).await?)
    }

    /// Deletes an access key.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_key(&self, access_key: &str) -> Result<Change> {
        Ok(users::delete_key(&self.db, access_key).await?)
    }

    /// Creates a group.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn create_group(&self, name: &str) -> Result<Change> {
        Ok(users::create_group(&self.db, name).await?)
    }

    /// Deletes a group, unless it has both members and policies: the members would have other rights at once.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_group(&self, name: &str) -> Result<Change> {
        Ok(users::delete_group(&self.db, name).await?)
    }

    /// All groups by name, each with its members and its policies.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn groups(&self) -> Result<Vec<(String, Vec<String>, Vec<String>)>> {
        Ok(users::groups(&self.db).await?)
    }

    /// Adds a user to a group, or takes it out.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_member(&self, group: &str, user: &str, member: bool) -> Result<Change> {
        Ok(users::set_member(&self.db, group, user, member).await?)
    }

    /// Stores or replaces a policy.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn put_policy(&self, name: &str, document: &str) -> Result<()> {
        Ok(users::put_policy(&self.db, name, document).await?)
    }

    /// Deletes a policy that is attached to nobody.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_policy(&self, name: &str) -> Result<Change> {
        Ok(users::delete_policy(&self.db, name).await?)
    }

    /// All policies by name, with their documents.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn policies(&self) -> Result<Vec<(String, String)>> {
        Ok(users::policies(&self.db).await?)
    }

    /// Attaches a policy to a user or a group, or takes it away.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn attach_policy(&self, policy: &str, to: Attached<'_>, attached: bool) -> Result<Change> {
        Ok(users::attach_policy(&self.db, policy, to, attached).await?)
    }
}

/// Whom a policy is attached to, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached<'a> {
    /// A user.
    User(&'a str),
    /// A group.
    Group(&'a str),
}
