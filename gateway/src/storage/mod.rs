//! The engine: objects over large objects and companion tables. Knows buckets, keys and bytes; never HTTP, never S3's
//! wire format.
//!
//! The life of a content, the one thing that takes space:
//!
//! ```text
//!   (in a transaction) ──COMMIT──▶ live ──last reference replaced or deleted──▶ removed
//!          │                        ▲                                             │
//!       rollback                    └──── a copy takes a reference first ─────────┤
//!          ▼                                                                      ▼  visible as removed to every reader
//!        nothing                                                                gone
//! ```
//!
//! What each failure leaves:
//!
//! | failure | left behind |
//! |---|---|
//! | client gone while its body arrives | nothing: buffered bytes are freed, a streamed transaction rolls back |
//! | gateway killed before COMMIT | nothing: PostgreSQL rolls back when the connection ends |
//! | gateway killed after COMMIT, before the reply | the object, whole; the client repeats the request |
//! | COMMIT's answer lost | settled by asking the database for what was stored (`settle.rs`) |
//! | gateway killed during a read | its lease runs out, then the reaper no longer waits for it |
//!
//! Order of locks: the advisory lock of the bucket, upload row, object row, content row.

mod batch_queue;
pub mod bucket_settings;
mod budget;
mod content;
mod copying;
mod early_write;
pub mod error;
pub mod expiry;
mod incoming;
mod index;
mod large_object_writer;
mod lease;
pub mod lifecycle;
mod listing;
mod locate_queue;
pub mod maintenance;
mod multipart;
mod put_queue;
mod range_reader;
mod read_ahead;
mod read_plan;
mod removal;
mod renaming;
mod running_reads;
mod settle;
mod staged_writer;
pub mod types;
mod upload_listing;
pub mod users;
mod version_listing;
pub mod version_types;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use uuid::Uuid;

pub use content::block_cache::BlockCache;
pub use content::digest;
pub use error::{ErrorKind, Result, StorageError};
pub use incoming::BodyStream;
pub use lease::Lease;
pub use listing::{ListEntry, ListObjects, ListedObject};
pub use multipart::{CompleteUpload, Completed, CompletedPart, CreateUpload, PublishPart, Upload};
pub use range_reader::{ByteStream, Located};
pub use removal::{DeleteObject, Deleted, Deleter};
pub use renaming::{RenameObject, VersionConditions};
pub use running_reads::{ReadGuard, RunningReads};
pub use staged_writer::{StageOptions, Staged};
pub use upload_listing::{ListUploads, UploadEntry};
pub use version_listing::{ListVersions, ListedVersion, VersionEntry};
pub use versions::ObjectVersion;

use crate::db::Db;
use bucket_settings::Setting;
use budget::Budget;
use content::flights::Flights;
use content::hashing::Hashers;
use early_write::EarlyWrites;
use locate_queue::LocateQueue;
use put_queue::PutQueue;
use types::{Attributes, Bucket, BucketName, Checksum, ObjectKey, Page, WriteConditions};
use version_types::{VersionSettings, Written};

/// What the engine may use, and where it changes its ways. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// Bodies up to this lie inline in the content row.
    pub inline_max: u64,
    /// Bodies up to this are received whole before the database is asked for anything.
    pub buffer_max: u64,
    /// Bytes per write to a large object; a multiple of 2048.
    pub write_chunk: u64,
    /// Bytes per read of a large object.
    pub read_window: u64,
    /// Windows read ahead of a client.
    pub read_ahead: usize,
    /// Memory for bodies that arrive.
    pub upload_memory: u64,
    /// Memory for windows that leave.
    pub download_memory: u64,
    /// Longest wait for a share of either.
    pub memory_wait: Duration,
    /// Longest pause between two pieces of a body.
    pub body_idle_timeout: Duration,
}

/// Windows that are fetched at once, at least; otherwise twice as many as there are processors.
const LEAST_FETCHES: usize = 4;
/// Part of the memory for uploads that is kept for bodies short enough to be stored inline: one in so many.
const SHORT_UPLOADS_SHARE: u64 = 8;

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Storage {
    db: Db,
    options: Arc<StorageOptions>,
    reads: Arc<RunningReads>,
    locates: LocateQueue,
    puts: PutQueue,
    hashers: Hashers,
    early_writes: EarlyWrites,
    uploads: Budget,
    /// A share of the uploads' memory that only short bodies may take: large ones of slow clients cannot lock them out.
    short_uploads: Budget,
    downloads: Budget,
    cache: BlockCache,
    flights: Flights,
    /// Turns to fetch a window. Few backends keep a server busy whose every answer is a MiB; more of them only push each
    /// other out of the processor's caches.
    fetches: Arc<Semaphore>,
    /// Windows fetched ahead of clients.
    read_ahead: Arc<read_ahead::ReadAhead<range_reader::Fetch>>,
}

/// An object to publish.
#[derive(Clone, Debug)]
pub struct PublishObject {
    /// Into which bucket.
    pub bucket: BucketName,
    /// Under which key.
    pub key: ObjectKey,
    /// Who owns it.
    pub owner: String,
    /// What is stored beside the bytes.
    pub attributes: Attributes,
    /// Its checksum.
    pub checksum: Option<Checksum>,
    /// What must hold at the moment of publishing.
    pub conditions: WriteConditions,
    /// What is set on the version.
    pub settings: VersionSettings,
}

/// An object published: durable and visible.
#[derive(Clone, Debug)]
pub struct Published {
    /// ETag without quotes.
    pub etag: String,
    /// Length in bytes.
    pub size: u64,
    /// When, and as which version.
    pub written: Written,
}

impl Storage {
    /// The engine over a database, without a cache. `reads` is what this instance registered for ([`RunningReads`]).
    #[must_use]
    pub fn new(db: Db, options: StorageOptions, reads: Arc<RunningReads>) -> Self {
        let reserved = options.upload_memory / SHORT_UPLOADS_SHARE;
        let short_uploads = Budget::new(reserved, options.memory_wait);
        let uploads = Budget::new(options.upload_memory - reserved, options.memory_wait);
        let downloads = Budget::new(options.download_memory, options.memory_wait);
        let (locates, puts) = (LocateQueue::new(db.clone()), PutQueue::new(db.clone()));
        let (cache, flights, hashers) = (BlockCache::off(), Flights::default(), Hashers::new());
        let early_writes = EarlyWrites::new();
        let fetches = Arc::new(Semaphore::new((2 * processors()).max(LEAST_FETCHES)));
        Self {
            db,
            options: Arc::new(options),
            reads,
            locates,
            puts,
            hashers,
            early_writes,
            uploads,
            short_uploads,
            downloads,
            cache,
            flights,
            fetches,
            read_ahead: Arc::new(read_ahead::ReadAhead::new()),
        }
    }

    /// The same engine with a cache in front of the large objects.
    #[must_use]
    pub fn with_cache(self, cache: BlockCache) -> Self {
        Self { cache, ..self }
    }

    /// Creates a bucket, with object lock also with versioning.
    ///
    /// # Errors
    /// [`ErrorKind::BucketAlreadyOwnedByYou`], [`ErrorKind::BucketAlreadyExists`].
    pub async fn create_bucket(
        &self,
        name: &BucketName,
        owner: &str,
        object_lock: bool,
        settings: &[(Setting, String)],
    ) -> Result<()> {
        if index::buckets::create(&self.db, name, owner, object_lock, settings).await? {
            return Ok(());
        }
        match index::buckets::find(&self.db, name).await? {
            Some(bucket) if bucket.owner == owner => Err(ErrorKind::BucketAlreadyOwnedByYou.into()),
            _ => Err(ErrorKind::BucketAlreadyExists.into()),
        }
    }

    /// Finds a bucket.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn bucket(&self, name: &BucketName) -> Result<Bucket> {
        index::buckets::find(&self.db, name).await?.ok_or_else(|| ErrorKind::NoSuchBucket.into())
    }

    /// Deletes an empty bucket and the multipart uploads under way in it.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::BucketNotEmpty`].
    pub async fn delete_bucket(&self, name: &BucketName) -> Result<()> {
        Ok(index::buckets::delete(&self.db, name).await?)
    }

    /// Buckets whose names begin with `prefix`, after the name `after`, at most `max`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn list_buckets(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: u32,
        owner: Option<&str>,
    ) -> Result<Page<Bucket>> {
        Ok(index::buckets::list(&self.db, prefix, after.unwrap_or(""), max, owner).await?)
    }
}

/// A new content id: time-ordered, so that the index grows at one end.
fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// Processors of this machine: what the engine does at once of what costs processor time, here or at the server, is
/// measured by them.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
