//! Moments from strings.

/// The moment that a string names, in microseconds since 1970-01-01T00:00:00Z: a date `YYYY-MM-DD`, with a time
/// `HH:MM[:SS[.fraction]]` after `T` or a space, with `Z`, ` UTC` or `±HH[[:]MM]` after the seconds. Without an offset
/// it is UTC. What is finer than a microsecond is cut off.
pub fn moment(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (date, rest) = text.split_at_checked(10)?;
    let days = days(date)?;
    let Some(time) = rest.strip_prefix(['T', ' ']) else {
        return rest.is_empty().then(|| days * 86_400_000_000);
    };
    let mut hour_and_minute = Digits(time);
    let (hour, minute) = (hour_and_minute.take(2)?, hour_and_minute.after(":")?.take(2)?);
    let mut rest = hour_and_minute.0;
    let (mut second, mut micros) = (0, 0);
    let mut offset = 0;
    if let Some(seconds) = rest.strip_prefix(':') {
        let mut digits = Digits(seconds);
        second = digits.take(2)?;
        rest = digits.0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let end = fraction.find(|it: char| !it.is_ascii_digit()).unwrap_or(fraction.len());
            let (digits, after) = fraction.split_at(end);
            micros = format!("{digits:0<6}").get(..6).filter(|_| end > 0)?.parse().ok()?;
            rest = after;
        }
        offset = offset_minutes(rest)?;
        rest = "";
    }
    let is_time = rest.is_empty() && hour < 24 && minute < 60 && second < 60;
    is_time.then(|| {
        let seconds = ((days * 24 + hour) * 60 + minute - offset) * 60 + second;
        seconds * 1_000_000 + micros
    })
}

/// Minutes east of Greenwich.
fn offset_minutes(text: &str) -> Option<i64> {
    if ["", "Z", "z", " Z", " UTC"].contains(&text) {
        return Some(0);
    }
    let text = text.strip_prefix(' ').unwrap_or(text);
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let mut digits = Digits(rest);
    let hours = digits.take(2)?;
    let minutes = if digits.0.is_empty() { 0 } else { Digits(digits.0.trim_start_matches(':')).last(2)? };
    (hours < 24 && minutes < 60).then_some(sign * (60 * hours + minutes))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(date: &str) -> Option<i64> {
    let mut digits = Digits(date);
    let (year, month, day) = (digits.take(4)?, digits.after("-")?.take(2)?, digits.after("-")?.last(2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=length).contains(&day) {
        return None;
    }
    // Years begin in March, so that the day that comes and goes is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Some(365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468)
}

/// Text that numbers of fixed width are read from.
struct Digits<'a>(&'a str);

impl Digits<'_> {
    fn take(&mut self, width: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(width)?;
        self.0 = rest;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
    }

    fn after(&mut self, mark: &str) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(mark)?;
        Some(self)
    }

    /// The number that is all that is left.
    fn last(&mut self, width: usize) -> Option<i64> {
        (self.0.len() == width).then(|| self.take(width))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_in_every_form() {
        let noon = 1_718_452_800_000_000;
        for text in [
            "2024-06-15T12:00:00Z",
            "2024-06-15 12:00:00z",
            "  2024-06-15T12:00",
            "2024-06-15 12:00:00 UTC",
            "2024-06-15T13:30:00+01:30",
            "2024-06-15T13:30:00.000 +0130",
            "2024-06-15 02:00:00-10",
            "2024-06-15T12:00:00.0000009",
        ] {
            assert_eq!(moment(text), Some(noon), "{text}");
        }
        assert_eq!(moment("1970-01-01"), Some(0));
        assert_eq!(moment("1969-12-31T23:59:59.5"), Some(-500_000));
        assert_eq!(moment("2000-02-29"), Some(951_782_400_000_000));
        assert_eq!(moment("9999-12-31T23:59:59.999999Z"), Some(253_402_300_799_999_999));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "now",
            "2024",
            "2024-6-15",
            "2024-02-30",
            "1900-02-29",
            "2024-13-01",
            "2024-06-15 12",
            "2024-06-15T25:00",
            "2024-06-15T12:30:",
            "2024-06-15T12:00:60",
            "2024-06-15T12:00Z",
            "2024-06-15x",
            "2024-06-15T12:00:00.Z",
            "2024-06-15T12:00:00+1",
            "2024-06-15T12:00:00+01:3",
            "0000-01-01",
            "+024-06-15",
            "2024-06-15T12:00:00é",
            "2024-06-1é",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
