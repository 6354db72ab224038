//! Access control lists and object ownership on the wire.
//!
//! In a bucket whose ownership is `BucketOwnerEnforced`, S3's default and ours, lists are switched off: they are read as the
//! owner's full control, and a request that sets one is refused in S3's words, save one that would say just that.

use http::{Extensions, HeaderMap, StatusCode};
use s3s::dto::{self, *};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::auth::acl::{Acl, Canned, Grant, Grantee, MAX_GRANTS, Permission};
use crate::auth::{BucketRules, ObjectOwnership, Owner};
use crate::storage::ErrorKind;
use crate::storage::bucket_settings::Setting;

use super::error::{custom, from_storage, internal, malformed_xml};
use super::{Answer, Gateway, admission, bucket_settings, names, parties, versions};

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// Headers with grants, and what they grant.
const GRANTS: [(&str, Permission); 5] = [
    ("x-amz-grant-full-control", Permission::FullControl),
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
];

/// What a request for a list is told where lists are switched off.
fn refused() -> S3Error {
    s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs")
}

fn blocked() -> S3Error {
    s3_error!(AccessDenied, "Access Denied")
}

/// Somebody by a canonical id, who has to exist.
async fn user(extensions: &Extensions, id: &str) -> S3Result<Grantee> {
    let known = match parties::permit(extensions) {
        Some(permit) => permit.directory().user(id).await.map_err(from_storage)?,
        None => None,
    };
    let known = known.ok_or_else(|| s3_error!(InvalidArgument, "Invalid id"))?;
    Ok(Grantee::User(known.id))
}

fn group(uri: &str) -> S3Result<Grantee> {
    match uri {
        ALL_USERS => Ok(Grantee::AllUsers),
        AUTHENTICATED_USERS => Ok(Grantee::AuthenticatedUsers),
        LOG_DELIVERY => Ok(Grantee::LogDelivery),
        _ => Err(s3_error!(InvalidArgument, "Invalid group uri")),
    }
}

fn unresolvable() -> S3Error {
    s3_error!(UnresolvableGrantByEmailAddress, "The e-mail address you provided does not match any account on record.")
}

/// The list that the headers of a request ask for.
async fn in_headers(
    headers: &HeaderMap,
    extensions: &Extensions,
    owner: &str,
    bucket_owner: &str,
) -> S3Result<Option<Acl>> {
    let canned = headers.get("x-amz-acl");
    let granting = GRANTS.iter().any(|(name, _)| headers.contains_key(*name));
    match canned {
        Some(_) if granting => {
            Err(s3_error!(InvalidRequest, "Specifying both Canned ACLs and Header Grants is not allowed"))
        }
        Some(name) => {
            let canned = name.to_str().ok().and_then(Canned::parse);
            Ok(Some(canned.ok_or_else(|| s3_error!(InvalidArgument, "Invalid canned ACL"))?.acl(owner, bucket_owner)))
        }
        None if granting => {
            let mut grants = Vec::new();
            for (name, permission) in GRANTS {
                for text in headers.get_all(name).iter().map(|v| v.to_str().unwrap_or_default()) {
                    for grantee in text.split(',') {
                        let grantee = grantee_in(extensions, grantee.trim()).await?;
                        grants.push(Grant { grantee, permission });
                    }
                }
            }
            Ok(Some(checked(Acl(grants))?))
        }
        None => Ok(None),
    }
}

/// `id="…"`, `uri="…"` or `emailAddress="…"`.
async fn grantee_in(extensions: &Extensions, text: &str) -> S3Result<Grantee> {
    let (kind, value) =
        text.split_once('=').ok_or_else(|| s3_error!(InvalidArgument, "Argument format not recognized"))?;
    let value = value.trim().trim_matches('"');
    match kind.trim().to_ascii_lowercase().as_str() {
        "id" => user(extensions, value).await,
        "uri" => group(value),
        "emailaddress" => Err(unresolvable()),
        _ => Err(s3_error!(InvalidArgument, "Argument format not recognized")),
    }
}

fn checked(acl: Acl) -> S3Result<Acl> {
    if acl.0.len() > MAX_GRANTS {
        return Err(malformed_acl());
    }
    Ok(acl)
}

fn malformed_acl() -> S3Error {
    s3_error!(
        MalformedACLError,
        "The XML you provided was not well-formed or did not validate against our published schema"
    )
}

/// Who will own what a request writes, and the list it asks for.
pub(super) async fn of_write(
    headers: &HeaderMap,
    extensions: &Extensions,
) -> S3Result<(Owner, Option<serde_json::Value>)> {
    let full_control = headers.get("x-amz-acl").is_some_and(|v| v.as_bytes() == b"bucket-owner-full-control");
    let owner = parties::writer(extensions, full_control);
    let Some(rules) = parties::rules(extensions).filter(|rules| rules.has_acls()) else {
        if admission::asks_for_acl(headers) {
            return Err(refused());
        }
        return Ok((owner, None));
    };
    let acl = in_headers(headers, extensions, &owner.id, &rules.owner.id).await?;
    let acl = acl.map(|acl| allowed(acl, rules)).transpose()?;
    let acl = acl.map(|acl| serde_json::to_value(acl).map_err(|_| internal())).transpose()?;
    Ok((owner, acl))
}

fn allowed(acl: Acl, rules: &BucketRules) -> S3Result<Acl> {
    if rules.block.block_public_acls && acl.is_public() { Err(blocked()) } else { Ok(acl) }
}

/// The ownership and the list that a new bucket is to have.
pub(super) async fn of_new_bucket(
    default: ObjectOwnership,
    headers: &HeaderMap,
    extensions: &Extensions,
    owner: &Owner,
) -> S3Result<Vec<(Setting, String)>> {
    let mut settings = Vec::new();
    let ownership = match headers.get("x-amz-object-ownership").map(|v| v.to_str().unwrap_or_default()) {
        None => default,
        Some(name) => {
            let invalid = || s3_error!(InvalidArgument, "Invalid x-amz-object-ownership header");
            ObjectOwnership::parse(name).ok_or_else(invalid)?
        }
    };
    if ownership == ObjectOwnership::BucketOwnerEnforced {
        if admission::asks_for_acl(headers) {
            return Err(s3_error!(
                InvalidBucketAclWithObjectOwnership,
                "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
            ));
        }
        return Ok(settings);
    }
    settings.push((Setting::ObjectOwnership, bucket_settings::document(&ownership)?));
    if let Some(acl) = in_headers(headers, extensions, &owner.id, &owner.id).await? {
        settings.push((Setting::Acl, bucket_settings::document(&acl)?));
    }
    Ok(settings)
}

/// The list that a request sets: by headers or by its document.
async fn set_by(
    headers: &HeaderMap,
    extensions: &Extensions,
    policy: Option<AccessControlPolicy>,
    (owner, bucket_owner): (&str, &str),
) -> S3Result<Acl> {
    let by_headers = in_headers(headers, extensions, owner, bucket_owner).await?;
    match (by_headers, policy) {
        (Some(acl), None) => Ok(acl),
        (Some(_), Some(_)) => Err(s3_error!(UnexpectedContent, "This request does not support content")),
        (None, Some(policy)) => of_document(extensions, policy, owner).await,
        (None, None) => Err(s3_error!(MissingSecurityHeader, "Your request was missing a required header")),
    }
}

async fn of_document(extensions: &Extensions, policy: AccessControlPolicy, owner: &str) -> S3Result<Acl> {
    // An owner cannot be given away.
    let named = policy.owner.and_then(|owner| owner.id).ok_or_else(malformed_acl)?;
    if named != owner {
        return Err(s3_error!(AccessDenied, "Access Denied"));
    }
    let given = policy.grants.unwrap_or_default();
    // Counted before anybody is looked up.
    if given.len() > MAX_GRANTS {
        return Err(malformed_acl());
    }
    let mut grants = Vec::new();
    for grant in given {
        let (Some(grantee), Some(permission)) = (grant.grantee, grant.permission) else { return Err(malformed_acl()) };
        let permission = match permission.as_str() {
            "READ" => Permission::Read,
            "WRITE" => Permission::Write,
            "READ_ACP" => Permission::ReadAcp,
            "WRITE_ACP" => Permission::WriteAcp,
            "FULL_CONTROL" => Permission::FullControl,
            _ => return Err(malformed_acl()),
        };
        let grantee = match (grantee.type_.as_str(), grantee.id, grantee.uri) {
            ("CanonicalUser", Some(id), _) => user(extensions, &id).await?,
            ("Group", _, Some(uri)) => group(&uri)?,
            ("AmazonCustomerByEmail", ..) => return Err(unresolvable()),
            _ => return Err(malformed_acl()),
        };
        grants.push(Grant { grantee, permission });
    }
    checked(Acl(grants))
}

/// A list in an answer; names of others than the owner are looked up.
async fn grants(extensions: &Extensions, acl: &Acl) -> S3Result<Grants> {
    let mut shown = Vec::with_capacity(acl.0.len());
    for grant in &acl.0 {
        let permission = match grant.permission {
            Permission::Read => dto::Permission::READ,
            Permission::Write => dto::Permission::WRITE,
            Permission::ReadAcp => dto::Permission::READ_ACP,
            Permission::WriteAcp => dto::Permission::WRITE_ACP,
            Permission::FullControl => dto::Permission::FULL_CONTROL,
        };
        let of_group = |uri: &str| dto::Grantee {
            display_name: None,
            email_address: None,
            id: None,
            type_: Type::from_static(Type::GROUP),
            uri: Some(uri.to_owned()),
        };
        let grantee = match &grant.grantee {
            Grantee::AllUsers => of_group(ALL_USERS),
            Grantee::AuthenticatedUsers => of_group(AUTHENTICATED_USERS),
            Grantee::LogDelivery => of_group(LOG_DELIVERY),
            Grantee::User(id) => dto::Grantee {
                display_name: name_of(extensions, id).await?,
                email_address: None,
                id: Some(id.clone()),
                type_: Type::from_static(Type::CANONICAL_USER),
                uri: None,
            },
        };
        shown.push(dto::Grant { grantee: Some(grantee), permission: Some(dto::Permission::from_static(permission)) });
    }
    Ok(shown)
}

async fn name_of(extensions: &Extensions, id: &str) -> S3Result<Option<String>> {
    let Some(permit) = parties::permit(extensions) else { return Ok(None) };
    let user = permit.directory().user(id).await.map_err(from_storage)?;
    Ok(user.map(|user| user.display_name))
}

/// GetBucketAcl.
pub(super) async fn get_of_bucket(gateway: &Gateway, req: S3Request<GetBucketAclInput>) -> Answer<GetBucketAclOutput> {
    gateway.admit(&req)?;
    let bucket = gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let private = || Canned::Private.acl(&bucket.owner, &bucket.owner);
    let acl = match parties::rules(&req.extensions) {
        Some(rules) if rules.has_acls() => rules.acl(),
        _ => private(),
    };
    let owner = parties::Owners::of(&req.extensions).shown(&bucket.owner);
    let grants = Some(grants(&req.extensions, &acl).await?);
    Ok(S3Response::new(GetBucketAclOutput { grants, owner: Some(owner) }))
}

/// PutBucketAcl.
pub(super) async fn put_of_bucket(gateway: &Gateway, req: S3Request<PutBucketAclInput>) -> Answer<PutBucketAclOutput> {
    gateway.admit(&req)?;
    let bucket = gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let rules = parties::rules(&req.extensions).filter(|rules| rules.has_acls()).ok_or_else(refused)?;
    let owner = (bucket.owner.as_str(), bucket.owner.as_str());
    let acl = set_by(&req.headers, &req.extensions, req.input.access_control_policy, owner).await?;
    let acl = allowed(acl, rules)?;
    bucket_settings::store(gateway, &req.input.bucket, Setting::Acl, &acl).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// GetObjectAcl.
pub(super) async fn get_of_object(gateway: &Gateway, req: S3Request<GetObjectAclInput>) -> Answer<GetObjectAclOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let found =
        gateway.storage.head(&object, crate::storage::types::RangeRequest::Whole).await.map_err(from_storage)?;
    let stored = gateway.storage.object_acl(&object).await.map_err(from_storage)?;
    let (owner, acl) = stored.ok_or_else(|| from_storage(ErrorKind::NoSuchKey.into()))?;
    let with_acls = parties::rules(&req.extensions).is_some_and(BucketRules::has_acls);
    let owner = if with_acls { owner } else { parties::bucket_owner(&req.extensions).id };
    let acl = match acl.filter(|_| with_acls) {
        Some(acl) => serde_json::from_value(acl).map_err(|_| internal())?,
        None => Canned::Private.acl(&owner, &owner),
    };
    let output = GetObjectAclOutput {
        grants: Some(grants(&req.extensions, &acl).await?),
        owner: Some(dto::Owner { display_name: name_of(&req.extensions, &owner).await?, id: Some(owner) }),
        ..Default::default()
    };
    drop(found);
    Ok(S3Response::new(output))
}

/// PutObjectAcl.
pub(super) async fn put_of_object(gateway: &Gateway, req: S3Request<PutObjectAclInput>) -> Answer<PutObjectAclOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    gateway.storage.head(&object, crate::storage::types::RangeRequest::Whole).await.map_err(from_storage)?;
    let rules = parties::rules(&req.extensions).ok_or_else(refused)?;
    let (owner, _) = gateway
        .storage
        .object_acl(&object)
        .await
        .map_err(from_storage)?
        .ok_or_else(|| from_storage(ErrorKind::NoSuchKey.into()))?;
    let owners = (owner.as_str(), rules.owner.id.as_str());
    let policy = req.input.access_control_policy;
    if !rules.has_acls() {
        // A document that says what holds anyway is accepted: clients put back what they have read.
        let document =
            if admission::asks_for_acl(&req.headers) || req.headers.contains_key("x-amz-acl") { None } else { policy };
        let acl = of_document(&req.extensions, document.ok_or_else(refused)?, &owner).await.map_err(|_| refused())?;
        let holds = acl == Canned::Private.acl(&owner, &owner);
        return if holds { Ok(S3Response::new(PutObjectAclOutput::default())) } else { Err(refused()) };
    }
    let acl = set_by(&req.headers, &req.extensions, policy, owners).await?;
    let acl = serde_json::to_value(allowed(acl, rules)?).map_err(|_| internal())?;
    gateway.storage.set_acl(&object, &acl).await.map_err(from_storage)?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

/// GetBucketOwnershipControls.
pub(super) async fn get_ownership_controls(
    gateway: &Gateway,
    req: S3Request<GetBucketOwnershipControlsInput>,
) -> Answer<GetBucketOwnershipControlsOutput> {
    gateway.admit(&req)?;
    let stored = bucket_settings::stored(gateway, &req.input.bucket, Setting::ObjectOwnership).await?;
    let ownership: Option<ObjectOwnership> = stored.unwrap_or_else(|| Some(ObjectOwnership::default()));
    let ownership = ownership.ok_or_else(|| {
        custom("OwnershipControlsNotFoundError", StatusCode::NOT_FOUND, "The bucket ownership controls were not found")
    })?;
    let object_ownership = dto::ObjectOwnership::from_static(ownership.as_str());
    let controls = OwnershipControls { rules: vec![OwnershipControlsRule { object_ownership }] };
    Ok(S3Response::new(GetBucketOwnershipControlsOutput { ownership_controls: Some(controls) }))
}

/// PutBucketOwnershipControls. Lists can be switched off only where they grant nothing to others.
pub(super) async fn put_ownership_controls(
    gateway: &Gateway,
    req: S3Request<PutBucketOwnershipControlsInput>,
) -> Answer<PutBucketOwnershipControlsOutput> {
    gateway.admit(&req)?;
    let [rule] = &req.input.ownership_controls.rules[..] else { return Err(malformed_xml()) };
    let ownership = ObjectOwnership::parse(rule.object_ownership.as_str()).ok_or_else(malformed_xml)?;
    let grants_to_others = parties::rules(&req.extensions).is_some_and(|rules| {
        rules.has_acls() && rules.acl().0.iter().any(|g| g.grantee != Grantee::User(rules.owner.id.clone()))
    });
    if ownership == ObjectOwnership::BucketOwnerEnforced && grants_to_others {
        return Err(s3_error!(
            InvalidBucketAclWithObjectOwnership,
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
        ));
    }
    bucket_settings::store(gateway, &req.input.bucket, Setting::ObjectOwnership, &ownership).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(PutBucketOwnershipControlsOutput::default()))
}

/// DeleteBucketOwnershipControls: writers own their objects, and lists count, as before S3 had the controls.
pub(super) async fn delete_ownership_controls(
    gateway: &Gateway,
    req: S3Request<DeleteBucketOwnershipControlsInput>,
) -> Answer<DeleteBucketOwnershipControlsOutput> {
    gateway.admit(&req)?;
    bucket_settings::store(gateway, &req.input.bucket, Setting::ObjectOwnership, &None::<ObjectOwnership>).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(DeleteBucketOwnershipControlsOutput::default()))
}
