//! Who holds which access key and what decides about which bucket: asked of the database, remembered until it changes.
//!
//! Every change is announced on a channel when it commits. As long as the listening connection lives, answers are
//! remembered; an announcement makes the bucket that it names forgotten, or all. A connection that has not answered for [`BELIEVED`] proves
//! nothing any more, and without one (behind a transaction pooler, on a standby, while it is made anew) the database
//! is asked for every request.
//! Invariant: what was asked before an announcement is not remembered after it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use s3s::S3Error;
use s3s::auth::SecretKey;
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Secret;
use crate::db::{Listener, Target};
use crate::storage::types::BucketName;
use crate::storage::users::{ACCESS_CHANNEL, KeyHolder};
use crate::storage::{Result, Storage, StorageError};

use super::bucket::BucketRules;
use super::cipher::Cipher;
use super::identity::{Identity, Owner, principal_names};

/// How long the last answer of the listening connection is proof that nothing was missed.
const BELIEVED: Duration = Duration::from_secs(5);
/// Pause between two questions whether it lives, and before it is made anew.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Answers that are remembered of each kind; then all are forgotten.
const REMEMBERED: usize = 10_000;
/// What the settings of buckets that are remembered may take as they are stored, bytes; then all are forgotten.
const REMEMBERED_BYTES: usize = 16 << 20;
/// Pause between two notes of which keys were used.
const NOTE_USE: Duration = Duration::from_secs(10);

/// The key pair of root. `Debug` of the secret shows nothing.
#[derive(Clone, Debug)]
pub struct RootCredentials {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: SecretKey,
}

/// Gives the text that secrets are encrypted with, if there is one yet.
pub type EncryptionKey = Arc<dyn Fn() -> Option<Secret<String>> + Send + Sync>;

/// What a client is told of a failure of the engine.
pub(super) type Trouble = fn(StorageError) -> S3Error;

/// Knows everybody.
pub struct Directory {
    storage: Storage,
    root_access_key: String,
    root: Arc<Identity>,
    encryption_key: EncryptionKey,
    trouble: Trouble,
    memory: Mutex<Memory>,
    /// Keys that were used since the last note.
    used: Mutex<HashSet<String>>,
}

#[derive(Default)]
struct Memory {
    /// Counts announcements and losses of the connection.
    generation: u64,
    /// Until when answers may be remembered and believed.
    believed_until: Option<Instant>,
    identities: HashMap<String, Arc<Identity>>,
    buckets: HashMap<String, Arc<BucketRules>>,
    /// What their settings take as they are stored.
    bucket_bytes: usize,
}

impl Memory {
    fn forget(&mut self) {
        self.generation += 1;
        self.identities.clear();
        self.forget_buckets();
    }

    fn forget_buckets(&mut self) {
        self.buckets.clear();
        self.bucket_bytes = 0;
    }

    fn forget_bucket(&mut self, name: &str) {
        self.generation += 1;
        if let Some(rules) = self.buckets.remove(name) {
            self.bucket_bytes -= rules.stored_bytes;
        }
    }

    fn remember(&mut self, rules: Arc<BucketRules>) {
        if self.buckets.len() >= REMEMBERED || self.bucket_bytes + rules.stored_bytes > REMEMBERED_BYTES {
            self.forget_buckets();
        }
        self.bucket_bytes += rules.stored_bytes;
        if let Some(before) = self.buckets.insert(rules.name.clone(), rules) {
            self.bucket_bytes -= before.stored_bytes;
        }
    }

    fn is_believed(&self) -> bool {
        self.believed_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Directory {
    /// Knows root, and asks for everybody else.
    #[must_use]
    pub fn new(storage: Storage, root: RootCredentials, encryption_key: EncryptionKey, trouble: Trouble) -> Self {
        let identity = Identity::root(&root.access_key, root.secret_key);
        Self {
            storage,
            root_access_key: root.access_key,
            root: Arc::new(identity),
            encryption_key,
            trouble,
            memory: Mutex::default(),
            used: Mutex::default(),
        }
    }

    /// The engine.
    pub(super) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// What a client is told of a failure.
    pub(super) fn trouble(&self, error: StorageError) -> S3Error {
        (self.trouble)(error)
    }

    /// Who holds an access key that may be used now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn identity(&self, access_key: &str) -> Result<Option<Arc<Identity>>> {
        if access_key == self.root_access_key {
            return Ok(Some(Arc::clone(&self.root)));
        }
        // The database takes no NUL.
        if access_key.contains('\0') {
            return Ok(None);
        }
        let (generation, known) = {
            let memory = self.memory();
            let known = memory.identities.get(access_key).filter(|_| memory.is_believed()).cloned();
            (memory.generation, known)
        };
        let identity = match known {
            Some(identity) => identity,
            None => {
                let Some(holder) = self.storage.key_holder(access_key).await? else { return Ok(None) };
                let Some(identity) = self.identify(access_key, holder).map(Arc::new) else { return Ok(None) };
                let mut memory = self.memory();
                if memory.is_believed() && memory.generation == generation {
                    if memory.identities.len() >= REMEMBERED {
                        memory.identities.clear();
                    }
                    memory.identities.insert(access_key.to_owned(), Arc::clone(&identity));
                }
                identity
            }
        };
        let ended = identity.expires_at.is_some_and(|at| at <= OffsetDateTime::now_utc());
        Ok((!ended).then_some(identity))
    }

    /// Notes that an access key was used: a signature with it holds.
    pub(super) fn used(&self, access_key: &str) {
        if access_key == self.root_access_key {
            return;
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !used.contains(access_key) {
            used.insert(access_key.to_owned());
        }
    }

    fn identify(&self, access_key: &str, holder: KeyHolder) -> Option<Identity> {
        if !holder.enabled {
            return None;
        }
        let Some(text) = (self.encryption_key)() else {
            tracing::error!(
                access_key,
                "secrets of users cannot be read: set auth.encryption_key to the key they were encrypted with, or use the \
                 data_dir that has it"
            );
            return None;
        };
        let secret = Cipher::new(text.expose()).and_then(|cipher| cipher.decrypt(access_key, &holder.secret));
        let told = |error: String| tracing::error!(access_key, error, "an access key cannot be used");
        let secret = secret.map_err(|error| told(error.to_string())).ok()?;
        Identity::of_user(holder, secret).map_err(|error| told(error.to_string())).ok()
    }

    /// What decides about a bucket; `None`: there is none of that name.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn bucket(&self, name: &BucketName) -> Result<Option<Arc<BucketRules>>> {
        if name.as_str().contains('\0') {
            return Ok(None);
        }
        let generation = {
            let memory = self.memory();
            if let Some(rules) = memory.buckets.get(name.as_str()).filter(|_| memory.is_believed()) {
                return Ok(Some(Arc::clone(rules)));
            }
            memory.generation
        };
        let Some(stored) = self.storage.bucket_access(name).await? else { return Ok(None) };
        let rules = Arc::new(BucketRules::read(name.as_str(), stored));
        let mut memory = self.memory();
        if memory.is_believed() && memory.generation == generation {
            memory.remember(Arc::clone(&rules));
        }
        Ok(Some(rules))
    }

    /// Somebody by any name, as an owner.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn user(&self, name: &str) -> Result<Option<Owner>> {
        Ok(self.principal(name).await?.map(|(owner, _)| owner))
    }

    /// Somebody by any name that a policy may use, and the ARN.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn principal(&self, name: &str) -> Result<Option<(Owner, String)>> {
        let root = &self.root;
        if root.names.canonical_id == name || root.names.names.iter().any(|n| n == name) {
            return Ok(Some((root.owner.clone(), root.arn())));
        }
        if name.contains('\0') {
            return Ok(None);
        }
        // ARNs name users by account or by name.
        let short = match name.strip_prefix("arn:aws:iam::").and_then(|rest| rest.split_once(':')) {
            None => name,
            Some((account, "root")) => account,
            Some((_, path)) => match path.strip_prefix("user/") {
                Some(user) => user,
                None => return Ok(None),
            },
        };
        let Some(user) = self.storage.find_user(short).await? else { return Ok(None) };
        let owner = Owner { id: user.canonical_id, display_name: user.name };
        let own = format!("user/{}", owner.display_name);
        // Of an ARN all has to fit: another account's user of the same name is somebody else.
        let names = principal_names(&owner, &user.account, &own).names;
        let fits = short == name || names.iter().any(|known| known == name);
        Ok(fits.then(|| (owner, format!("arn:aws:iam::{}:{own}", user.account))))
    }

    /// Forgets a bucket: this gateway has changed it itself.
    pub fn forget_bucket(&self, name: &str) {
        self.memory().forget_bucket(name);
    }

    /// Listens for changes and notes which keys are used, until it is stopped.
    pub async fn run(self: Arc<Self>, listening: Option<Target>, timeout: Duration, stop: CancellationToken) {
        let listen = async {
            match &listening {
                Some(target) => self.listen(target, timeout).await,
                None => std::future::pending().await,
            }
        };
        let note = async {
            loop {
                tokio::time::sleep(NOTE_USE).await;
                self.note_use().await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => self.note_use().await,
            () = listen => {}
            () = note => {}
        }
    }

    async fn note_use(&self) {
        let used: Vec<String> = self.used.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
        if !used.is_empty()
            && let Err(error) = self.storage.note_use(&used).await
        {
            tracing::debug!(%error, "when access keys were used last cannot be noted");
        }
    }

    async fn listen(&self, target: &Target, timeout: Duration) {
        loop {
            match Listener::open(target, ACCESS_CHANNEL, timeout).await {
                Ok(listener) => self.hear(listener).await,
                Err(error) => tracing::debug!(%error, "changes of users and policies cannot be listened for"),
            }
            {
                let mut memory = self.memory();
                memory.believed_until = None;
                memory.forget();
            }
            tokio::time::sleep(HEARTBEAT).await;
        }
    }

    async fn hear(&self, mut listener: Listener) {
        self.memory().forget();
        loop {
            let asked = Instant::now();
            if !listener.answers_within(BELIEVED).await {
                return;
            }
            self.memory().believed_until = Some(asked + BELIEVED);
            match tokio::time::timeout(HEARTBEAT, listener.changed()).await {
                Err(_) => {}
                Ok(None) => return,
                Ok(Some(announced)) => {
                    let mut memory = self.memory();
                    if announced.anything {
                        memory.forget();
                    }
                    announced.words.iter().for_each(|name| memory.forget_bucket(name));
                }
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
