//! Which texts are dates and times.

/// `2013-01-31`, or that and `T` or a space and `05:15`, `05:15:00` or `05:15:00.5`, or that and
/// `Z` or `-05:00`: what SQLite's functions for dates understand.
pub(crate) fn is_date_time(text: &str) -> bool {
    let mut rest = Digits(text.as_bytes());
    let (Some(year), true, Some(month), true, Some(day)) =
        (rest.number(4), rest.take(b"-"), rest.number(2), rest.take(b"-"), rest.number(2))
    else {
        return false;
    };
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return false;
    }
    if rest.0.is_empty() {
        return true;
    }
    if !(rest.take(b"T") || rest.take(b" ")) || !rest.clock_time() {
        return false;
    }
    if rest.take(b":") {
        if rest.number(2).is_none_or(|second| second > 60) {
            return false;
        }
        if rest.take(b".") && !rest.fraction() {
            return false;
        }
    }
    let has_offset = !rest.take(b"Z") && (rest.take(b"+") || rest.take(b"-"));
    (!has_offset || rest.clock_time()) && rest.0.is_empty()
}

struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn take(&mut self, literal: &[u8]) -> bool {
        match self.0.strip_prefix(literal) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn number(&mut self, digits: usize) -> Option<u32> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        if !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(number.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }

    fn clock_time(&mut self) -> bool {
        self.number(2).is_some_and(|hour| hour < 24)
            && self.take(b":")
            && self.number(2).is_some_and(|minute| minute < 60)
    }

    fn fraction(&mut self) -> bool {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.0 = &self.0[digits..];
        digits > 0
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_told_from_other_texts() {
        let good = [
            "2013-01-31",
            "2024-02-29",
            "2000-02-29",
            "2013-01-31 05:15",
            "2013-01-31T05:15",
            "2013-01-31T05:15Z",
            "2013-01-31T05:15:00",
            "2013-01-31T23:59:60Z",
            "2013-01-31T05:15:00.123456789Z",
            "2013-01-31T05:15:00+14:00",
            "2013-01-31T05:15:00.5-05:00",
        ];
        let bad = [
            "",
            "2013",
            "2013-1-31",
            "2013-13-01",
            "2013-00-01",
            "2013-04-31",
            "2023-02-29",
            "1900-02-29",
            "13-01-31",
            "2013-01-31T",
            "2013-01-31x05:15",
            "2013-01-31T24:00",
            "2013-01-31T05:60",
            "2013-01-31T05:15:61",
            "2013-01-31T05:15:00.Z",
            "2013-01-31T05:15:00ZZ",
            "2013-01-31T05:15:00Z+01:00",
            "2013-01-31T05:15:00+1",
            "2013-01-31T05:15:00+24:00",
            "2013-01-31T05:15:00 ",
            "２０13-01-31",
            "yesterday",
        ];
        for text in good {
            assert!(is_date_time(text), "{text:?}");
        }
        for text in bad {
            assert!(!is_date_time(text), "{text:?}");
        }
    }
}
