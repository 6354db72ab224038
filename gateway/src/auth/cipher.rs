//! Users' secret keys at rest: encrypted, each bound to its access key.
//!
//! Signatures are verified with the secret itself, so a digest would not do. AES-256-GCM with a random nonce; the key is
//! derived (HKDF-SHA256) from a text that is not in the database; the access key is authenticated with it, so that
//! whoever can write to the database cannot give one key the secret of another.
//! Invariant: a secret that was tampered with, or encrypted with another key, is an error, never another secret.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use s3s::auth::SecretKey;

/// The first byte of what is stored: how it was encrypted.
const FORMAT: u8 = 1;

/// Encrypts and decrypts secrets.
pub struct Cipher(LessSafeKey);

/// A secret could not be encrypted or decrypted; it does not say which bytes were wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of this access key was encrypted with another auth.encryption_key, or is damaged")]
pub struct CipherError;

impl Cipher {
    /// A cipher with a key derived from a text.
    ///
    /// # Errors
    /// [`CipherError`] where no key can be derived.
    pub fn new(text: &str) -> Result<Self, CipherError> {
        let derived = Salt::new(HKDF_SHA256, b"lobgate").extract(text.as_bytes());
        let key = derived.expand(&[b"access key secrets"], &AES_256_GCM).map_err(|_| CipherError)?;
        Ok(Self(LessSafeKey::new(UnboundKey::from(key))))
    }

    /// What is stored of a secret.
    ///
    /// # Errors
    /// [`CipherError`] where the system has no random numbers.
    pub fn encrypt(&self, access_key: &str, secret: &str) -> Result<Vec<u8>, CipherError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| CipherError)?;
        let mut sealed = secret.as_bytes().to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(nonce_used, Aad::from(access_key), &mut sealed).map_err(|_| CipherError)?;
        Ok([&[FORMAT], &nonce[..], &sealed].concat())
    }

    /// The secret of an access key.
    ///
    /// # Errors
    /// [`CipherError`].
    pub fn decrypt(&self, access_key: &str, stored: &[u8]) -> Result<SecretKey, CipherError> {
        let rest = stored.strip_prefix(&[FORMAT]).ok_or(CipherError)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN).ok_or(CipherError)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CipherError)?;
        let mut sealed = sealed.to_vec();
        let plain = self.0.open_in_place(nonce, Aad::from(access_key), &mut sealed).map_err(|_| CipherError)?;
        std::str::from_utf8(plain).map(SecretKey::from).map_err(|_| CipherError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_back_under_its_own_key_only() {
        let cipher = Cipher::new("a text of some length, random").unwrap();
        let stored = cipher.encrypt("alice", "hush, a secret").unwrap();
        assert!(!stored.windows(4).any(|w| w == b"hush"));
        assert_eq!(cipher.decrypt("alice", &stored).unwrap().expose(), "hush, a secret");
        assert_ne!(cipher.encrypt("alice", "hush, a secret").unwrap(), stored, "every nonce is used once");
        assert!(cipher.decrypt("bob", &stored).is_err());
        assert!(Cipher::new("another text").unwrap().decrypt("alice", &stored).is_err());
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert!(cipher.decrypt("alice", &damaged).is_err(), "byte {at}");
        }
        assert!(cipher.decrypt("alice", &[]).is_err() && cipher.decrypt("alice", &stored[..10]).is_err());
    }
}
