//! The name of an ordered map inside a store.

use std::fmt;

/// A named ordered map inside a store (a RocksDB column family).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family(&'static str);

impl Family {
    /// A family of this name. Meant for constants, where a bad name fails to compile.
    ///
    /// # Panics
    /// If the name is empty or has a character other than `a-z`, `0-9`, `_` and `-`.
    pub const fn new(name: &'static str) -> Family {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty(), "a family needs a name");
        let mut at = 0;
        while at < bytes.len() {
            assert!(
                matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'),
                "a family name is made of a-z, 0-9, _ and -"
            );
            at += 1;
        }
        Family(name)
    }

    /// The name, as it is stored.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
