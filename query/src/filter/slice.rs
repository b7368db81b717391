//! Slices of the ids, as Qdrant cuts them.

use dehub_vector::PointId;

/// One of `total` parts of the points, by a hash of their ids that is the same everywhere and always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The parts; at least 1.
    pub total: u64,
    /// Which one, from 0.
    pub index: u64,
}

impl Slice {
    /// Whether the point with this id is in it.
    pub fn contains(self, id: &PointId) -> bool {
        let hash = match id {
            PointId::Number(number) => siphash(&number.to_le_bytes()),
            PointId::Text(text) => match uuid(text) {
                Some(bytes) => siphash(&bytes),
                None => siphash(text.as_bytes()),
            },
        };
        hash % self.total.max(1) == self.index
    }
}

/// The bytes of a UUID.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&it| it != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_uuid.then(|| u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes))?
}

/// SipHash-2-4 with the key 0 (Aumasson and Bernstein, 2012).
fn siphash(bytes: &[u8]) -> u64 {
    const START: [u64; 4] =
        [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    let mut state = START;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len().to_le_bytes()[0];
    for word in words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word)) {
        state[3] ^= word;
        rounds(&mut state, 2);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    rounds(&mut state, 4);
    state.into_iter().fold(0, |sum, word| sum ^ word)
}

fn rounds(state: &mut [u64; 4], count: usize) {
    let [a, b, c, d] = state;
    for _ in 0..count {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As qdrant-client 1.20.0 hashes them.
    #[test]
    fn a_hash_is_the_one_that_qdrant_takes() {
        let uuid = uuid("6BA7B810-9dad-11d1-80b4-00c04fd430c8").expect("a UUID");
        let (counted, number): ([u8; 15], [u8; 8]) =
            (std::array::from_fn(|it| it as u8), 7_u64.to_le_bytes());
        for (bytes, wanted) in [
            (&[][..], 0x1e92_4b9d_7377_00d7),
            (&[0; 8], 0xe849_e8bb_6ffe_2567),
            (&number, 0xb6ea_513a_7ef6_2bf0),
            (&[0xff; 8], 0x8050_c18b_6ac9_d15e),
            (&uuid, 0x1c4b_1a72_a1bd_6aab),
            (&counted, 0xd056_7cd4_4e89_1363),
        ] {
            assert_eq!(siphash(bytes), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn slices_have_every_id_once() {
        let texts =
            ["a", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "é"].map(|it| PointId::text(it).expect("short"));
        for id in (0..50).map(PointId::Number).chain(texts) {
            let holding = (0..7).filter(|&index| Slice { total: 7, index }.contains(&id));
            assert_eq!(holding.count(), 1, "{id}");
        }
    }
}
