//! Names of backups: when, and at which sequence.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::BackupError;

/// The name of a backup: the time in UTC, the collection's sequence and, if two are alike in both, a number,
/// such as `20260131T235959Z-42` or `20260131T235959Z-42-2`. Ordered by time, then sequence, then number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BackupId {
    text: String,
    sequence: u64,
    copy: u32,
}

/// Characters of the time.
const TIME_LEN: usize = "20260131T235959Z".len();

impl BackupId {
    /// A backup made at `seconds` since 1970; `copy` counts from 1.
    pub(crate) fn new(seconds: u64, sequence: u64, copy: u32) -> BackupId {
        let time = utc(seconds);
        let text = if copy == 1 { format!("{time}-{sequence}") } else { format!("{time}-{sequence}-{copy}") };
        BackupId { text, sequence, copy }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn copy(&self) -> u32 {
        self.copy
    }

    fn key(&self) -> (&str, u64, u32) {
        (&self.text[..TIME_LEN], self.sequence, self.copy)
    }
}

impl Ord for BackupId {
    fn cmp(&self, other: &BackupId) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for BackupId {
    fn partial_cmp(&self, other: &BackupId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for BackupId {
    type Err = BackupError;

    fn from_str(text: &str) -> Result<BackupId, BackupError> {
        parse(text).ok_or_else(|| BackupError::Id { found: text.chars().take(200).collect() })
    }
}

fn parse(text: &str) -> Option<BackupId> {
    let (time, rest) = text.split_at_checked(TIME_LEN)?;
    let is_time = time.bytes().enumerate().all(|(place, byte)| match place {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    });
    if !is_time {
        return None;
    }
    let (sequence, copy) = rest.strip_prefix('-')?.split_once('-').unwrap_or((&rest[1..], "1"));
    let (sequence, copy): (u64, u32) = (sequence.parse().ok()?, copy.parse().ok()?);
    let number = if copy == 1 { String::new() } else { format!("-{copy}") };
    // Only as it is written, so that a backup has one name.
    (copy > 0 && text == format!("{time}-{sequence}{number}")).then(|| BackupId {
        text: text.to_owned(),
        sequence,
        copy,
    })
}

/// `YYYYMMDDTHHMMSSZ` of seconds since 1970, in the Gregorian calendar.
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is a year's last; 719,468 days from year 0 to 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * era + year + carry;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    // The year 9999 ends what this form can say.
    format!("{:04}{month:02}{date:02}T{hour:02}{minute:02}{second:02}Z", year.min(9999))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_one_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_735_689_599, "20241231T235959Z"),
            (1_709_164_800, "20240229T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
        ] {
            assert_eq!(utc(seconds), wanted);
        }
    }

    #[test]
    fn an_id_is_read_as_it_is_written_and_no_other() {
        for (sequence, copy) in [(0, 1), (42, 1), (42, 2), (u64::MAX, 1)] {
            let id = BackupId::new(951_782_400, sequence, copy);
            assert_eq!(id.as_str().parse::<BackupId>().expect("an id"), id);
        }
        for other in [
            "",
            "20000229T000000Z",
            "20000229T000000Z-",
            "20000229T000000Z-01",
            "20000229T000000Z-+1",
            "20000229T000000Z-1-1",
            "20000229T000000Z-1-0",
            "20000229T000000Z-1-02",
            "20000229T000000Z-18446744073709551616",
            "20000229-000000Z-1",
            "../20000229T000000Z-1",
            "20000229T000000é-1",
        ] {
            assert!(matches!(other.parse::<BackupId>(), Err(BackupError::Id { .. })), "{other}");
        }
    }

    #[test]
    fn ids_are_in_the_order_of_time_then_sequence() {
        let ids = [(5, 9, 1), (5, 10, 1), (5, 10, 2), (5, 10, 10), (6, 1, 1)];
        let ids = ids.map(|(seconds, sequence, copy)| BackupId::new(seconds, sequence, copy));
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]));
    }
}
