//! API keys: kept as hashes, each with what it may do.
//!
//! A key is 256 random bits (or as good as that, if an operator made it), so one BLAKE3 hash of it is as far from being
//! inverted as the key from being guessed. A slow hash protects what people can remember, and would let anyone who
//! sends wrong keys keep the server busy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustls::crypto::ring;
use serde::Deserialize;

use crate::routes::Access;

/// What a hash in a key file begins with.
const SCHEME: &str = "blake3:";

/// What a key made here begins with, for those who find one in a place where none should be.
const PREFIX: &str = "dehub_";

/// The random bytes of a key.
const KEY_BYTES: usize = 32;

/// The largest key file read.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The name of all collections in a scope.
const EVERY: &str = "*";

/// One key: its name for logs, its hash, and its rights.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    name: String,
    hash: blake3::Hash,
    rights: Rights,
}

/// What a key may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rights {
    /// Everything.
    Admin,
    /// Read everything.
    ReadOnly,
    /// Read or change what is in these collections; `*` is all of them.
    Collections(BTreeMap<String, Grant>),
}

/// What may be done with a collection. The later includes the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// It may be read.
    Read,
    /// What is in it may be changed too.
    Write,
}

/// Why keys cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error("the key file {} cannot be read: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The file is no key file.
    #[error("the key file {}{}: {reason}", path.display(), line.map_or(String::new(), |line| format!(", line {line}")))]
    File {
        /// Which.
        path: PathBuf,
        /// Where, counted from 1.
        line: Option<usize>,
        /// What was wanted and found.
        reason: String,
    },
    /// A key of the environment or the settings cannot be one.
    #[error("the key `{name}` {reason}")]
    Key {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes to make a key of")]
    Random,
}

/// The keys of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys(Vec<Key>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(default)]
    key: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    hash: String,
    role: Option<Role>,
    collections: Option<BTreeMap<String, Grant>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Role {
    Admin,
    ReadOnly,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("rights", &self.rights).finish_non_exhaustive()
    }
}

impl Key {
    /// A key given as it is. It is hashed and forgotten.
    pub fn plain(name: &str, secret: &str, rights: Rights) -> Result<Key, KeyError> {
        let refused = |reason| Err(KeyError::Key { name: name.to_owned(), reason });
        if secret.is_empty() {
            return refused("is empty: leave it out to have none");
        }
        if secret.trim() != secret || !secret.chars().all(|c| c.is_ascii_graphic()) {
            return refused("cannot be sent in a header: wanted visible ASCII characters without spaces");
        }
        Ok(Key { name: name.to_owned(), hash: blake3::hash(secret.as_bytes()), rights })
    }

    /// A new key, and itself as the client sends it, which is not kept anywhere.
    pub fn fresh(name: &str, rights: Rights) -> Result<(Key, String), KeyError> {
        let mut bytes = [0; KEY_BYTES];
        ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| KeyError::Random)?;
        let secret = bytes.iter().fold(PREFIX.to_owned(), |text, byte| format!("{text}{byte:02x}"));
        let key = Key::plain(name, &secret, rights)?;
        Ok((key, secret))
    }

    /// The names of the keys in a file, in which there may be none yet, and which need not be there.
    pub fn names_in(path: &Path) -> Result<Vec<String>, KeyError> {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let Keys(keys) = Keys::distinct(parse_file(path)?)?;
        Ok(keys.into_iter().map(|key| key.name).collect())
    }

    /// By what it is called in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its entry in a key file.
    pub fn to_toml(&self) -> String {
        let head = format!(
            "[[key]]\nname = {}\nhash = \"{SCHEME}{}\"\n",
            quoted(&self.name),
            self.hash.to_hex().as_str()
        );
        let rights = match &self.rights {
            Rights::Admin => "role = \"admin\"\n".to_owned(),
            Rights::ReadOnly => "role = \"read-only\"\n".to_owned(),
            Rights::Collections(scopes) => {
                let scopes: Vec<String> = scopes
                    .iter()
                    .map(|(name, grant)| format!("{} = \"{}\"", quoted(name), grant.name()))
                    .collect();
                format!("collections = {{ {} }}\n", scopes.join(", "))
            }
        };
        head + &rights
    }

    /// Whether it may do what needs `access`, of this collection or of none in particular.
    pub(crate) fn may(&self, access: Access, collection: Option<&str>) -> bool {
        match (&self.rights, access) {
            (_, Access::Public) | (Rights::Admin, _) | (Rights::ReadOnly, Access::Read) => true,
            (Rights::ReadOnly, Access::Write | Access::Manage) | (Rights::Collections(_), Access::Manage) => {
                false
            }
            (Rights::Collections(scopes), Access::Read) => match collection {
                Some(name) => grants(scopes, name, Grant::Read),
                // What is listed is only what the key may read.
                None => true,
            },
            (Rights::Collections(scopes), Access::Write) => {
                grants(scopes, collection.unwrap_or(EVERY), Grant::Write)
            }
        }
    }
}

fn grants(scopes: &BTreeMap<String, Grant>, collection: &str, wanted: Grant) -> bool {
    let given = |name: &str| scopes.get(name).is_some_and(|&grant| grant >= wanted);
    given(EVERY) || given(collection)
}

impl Grant {
    /// Its name in a key file.
    pub fn name(self) -> &'static str {
        match self {
            Grant::Read => "read",
            Grant::Write => "write",
        }
    }
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Grant, String> {
        match text {
            "read" => Ok(Grant::Read),
            "write" => Ok(Grant::Write),
            _ => Err(format!("`{text}` is no access, wanted read or write")),
        }
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

impl Keys {
    /// These, and those of a file. None of them may have the name or the hash of another.
    pub(crate) fn read(given: &[Key], file: Option<&Path>) -> Result<Keys, KeyError> {
        let mut keys = given.to_vec();
        if let Some(path) = file {
            keys.extend(read_file(path)?);
        }
        Keys::distinct(keys)
    }

    fn distinct(keys: Vec<Key>) -> Result<Keys, KeyError> {
        let mut names = BTreeSet::new();
        for (place, key) in keys.iter().enumerate() {
            let refused = |reason| Err(KeyError::Key { name: key.name.clone(), reason });
            if !names.insert(key.name.as_str()) {
                return refused("has the name of another key");
            }
            if keys[..place].iter().any(|other| other.hash == key.hash) {
                return refused("is the same as another key");
            }
        }
        Ok(Keys(keys))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key that was sent. Every key is compared, each in constant time (`blake3::Hash` is), so how long it takes
    /// tells nothing of them.
    pub(crate) fn find(&self, secret: &[u8]) -> Option<&Key> {
        let sent = blake3::hash(secret);
        self.0.iter().fold(None, |found, key| if key.hash == sent { Some(key) } else { found })
    }
}

/// The keys of a file that must have some.
fn read_file(path: &Path) -> Result<Vec<Key>, KeyError> {
    let keys = parse_file(path)?;
    if keys.is_empty() {
        let reason = "it has no [[key]]: make one with `dehub key new`".to_owned();
        return Err(KeyError::File { path: path.to_owned(), line: None, reason });
    }
    Ok(keys)
}

fn parse_file(path: &Path) -> Result<Vec<Key>, KeyError> {
    let unreadable = |source| KeyError::Read { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    let refused = |line, reason: String| KeyError::File { path: path.to_owned(), line, reason };
    if bytes > FILE_BYTES_MAX {
        return Err(refused(None, format!("it has {bytes} bytes, wanted at most {FILE_BYTES_MAX}")));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let form: FileForm = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        // Not the line itself: whoever puts a key in place of its hash does not find it in a log.
        refused(line, error.message().to_owned())
    })?;
    let key = |entry: Entry| {
        let name = entry.name.clone();
        entry.into_key().map_err(|reason| refused(None, format!("the key `{name}` {reason}")))
    };
    form.key.into_iter().map(key).collect()
}

impl Entry {
    fn into_key(self) -> Result<Key, String> {
        if self.name.trim().is_empty() {
            return Err("has no name".to_owned());
        }
        let hash = self.hash.strip_prefix(SCHEME).and_then(|hex| blake3::Hash::from_hex(hex).ok());
        let hash = hash.ok_or_else(|| format!("has no such hash, wanted `{SCHEME}` and 64 hex digits"))?;
        let rights = match (self.role, self.collections) {
            (Some(Role::Admin), None) => Rights::Admin,
            (Some(Role::ReadOnly), None) => Rights::ReadOnly,
            (None, Some(scopes)) if !scopes.is_empty() => Rights::Collections(scopes),
            (None, Some(_)) => return Err("has no collection in its scope".to_owned()),
            (Some(_), Some(_)) => return Err("has a role and collections, wanted one of them".to_owned()),
            (None, None) => return Err("has neither a role nor collections".to_owned()),
        };
        Ok(Key { name: self.name, hash, rights })
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    fn scopes(pairs: &[(&str, Grant)]) -> Rights {
        Rights::Collections(pairs.iter().map(|&(name, grant)| (name.to_owned(), grant)).collect())
    }

    /// Rights, what is wanted of which collection, and whether it may be had.
    type Case = (fn() -> Rights, Access, Option<&'static str>, bool);

    #[test]
    fn rights_reach_as_far_as_the_table_says() {
        let admin = || Rights::Admin;
        let reader = || Rights::ReadOnly;
        let shop = || scopes(&[("shop", Grant::Write), ("docs", Grant::Read)]);
        let all = || scopes(&[("*", Grant::Read)]);
        let writes_all = || scopes(&[("*", Grant::Write)]);
        let cases: [Case; 21] = [
            (admin, Access::Manage, None, true),
            (admin, Access::Write, Some("x"), true),
            (reader, Access::Read, Some("x"), true),
            (reader, Access::Read, None, true),
            (reader, Access::Write, Some("x"), false),
            (reader, Access::Manage, None, false),
            (shop, Access::Read, Some("shop"), true),
            (shop, Access::Write, Some("shop"), true),
            (shop, Access::Manage, Some("shop"), false),
            (shop, Access::Read, Some("docs"), true),
            (shop, Access::Write, Some("docs"), false),
            (shop, Access::Read, Some("other"), false),
            (shop, Access::Read, Some("*"), false),
            (shop, Access::Read, None, true),
            (shop, Access::Write, None, false),
            (all, Access::Read, Some("x"), true),
            (all, Access::Write, Some("x"), false),
            (writes_all, Access::Read, Some("x"), true),
            (writes_all, Access::Write, None, true),
            (writes_all, Access::Manage, Some("x"), false),
            (shop, Access::Public, None, true),
        ];
        for (rights, access, collection, wanted) in cases {
            let key = Key::plain("k", "secret", rights()).expect("a key");
            assert_eq!(key.may(access, collection), wanted, "{key:?} {access:?} {collection:?}");
        }
    }

    #[test]
    fn a_fresh_key_is_found_by_its_entry_and_by_nothing_else() {
        let folder = tempdir().expect("a folder");
        let path = folder.path().join("keys.toml");
        let all = [Rights::Admin, Rights::ReadOnly, scopes(&[("a\"b", Grant::Write), ("*", Grant::Read)])];
        let made: Vec<(Key, String)> = all
            .into_iter()
            .enumerate()
            .map(|(number, rights)| Key::fresh(&format!("k\"{number}"), rights).expect("a key"))
            .collect();
        let text: String = made.iter().map(|(key, _)| key.to_toml() + "\n").collect();
        fs::write(&path, &text).expect("written");
        let keys = Keys::read(&[], Some(&path)).expect("a key file");
        for (key, secret) in &made {
            assert_eq!(keys.find(secret.as_bytes()), Some(key));
            assert!(!text.contains(secret.as_str()), "the file has no key, only hashes");
            assert_eq!(keys.find(&secret.as_bytes()[1..]), None);
        }
        assert_eq!(keys.find(b""), None);
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_what_is_wrong() {
        let folder = tempdir().expect("a folder");
        let path = folder.path().join("keys.toml");
        let hash = "0".repeat(64);
        let cases = [
            (String::new(), "no [[key]]"),
            (
                format!("[[key]]\nname = \"a\"\nhash = \"blake3:{hash}\"\nrole = \"root\"\n"),
                "line 4: unknown variant `root`",
            ),
            (format!("[[key]]\nname = \"a\"\nhash = \"blake3:{hash}\"\n"), "neither a role nor collections"),
            (
                format!(
                    "[[key]]\nname = \"a\"\nhash = \"blake3:{hash}\"\nrole = \"admin\"\ncollections = {{}}"
                ),
                "a role and collections",
            ),
            (
                format!("[[key]]\nname = \"a\"\nhash = \"blake3:{hash}\"\ncollections = {{}}"),
                "no collection in its scope",
            ),
            ("[[key]]\nname = \"a\"\nhash = \"hunter2\"\nrole = \"admin\"\n".to_owned(), "`blake3:` and 64"),
            (format!("[[key]]\nname = \" \"\nhash = \"blake3:{hash}\"\nrole = \"admin\"\n"), "no name"),
            (
                format!("[[key]]\nname = \"a\"\nhash = \"blake3:{hash}\"\nrole = \"admin\"\n").repeat(2),
                "the name of another key",
            ),
            ("[[key]]\nname = \"a\"\nkey = \"hunter2\"\n".to_owned(), "line 3: unknown field `key`"),
        ];
        for (text, wanted) in cases {
            fs::write(&path, &text).expect("written");
            let error = Keys::read(&[], Some(&path)).expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}, wanted {wanted}");
            assert!(!error.contains("hunter2"), "a key does not get into logs: {error}");
        }
        let missing = Keys::read(&[], Some(&folder.path().join("none"))).expect_err("there is none");
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused() {
        for secret in ["", " a", "a b", "schlüssel", "a\n"] {
            assert!(Key::plain("k", secret, Rights::Admin).is_err(), "{secret:?}");
        }
    }
}
