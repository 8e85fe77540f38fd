use super::*;

/// A disk that fails where it is told to.
#[derive(Default)]
struct Failing {
    content: Vec<u8>,
    /// How many bytes still fit.
    room: usize,
    sync_fails: bool,
    cut_fails: bool,
}

impl Disk for Failing {
    fn length(&self) -> io::Result<u64> {
        Ok(self.content.len() as u64)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fits = bytes.len().min(self.room);
        self.content.extend_from_slice(&bytes[..fits]);
        self.room -= fits;
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if self.cut_fails {
            return Err(io::ErrorKind::Other.into());
        }
        self.room += self.content.len() - length as usize;
        self.content.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.sync_fails { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
}

#[test]
fn a_write_that_does_not_fit_leaves_nothing() {
    let mut disk = Failing { room: 10, ..Failing::default() };
    let mut torn_at = None;
    append(&mut disk, &mut torn_at, b"one\n").unwrap();
    let error = append(&mut disk, &mut torn_at, b"two\nthree\n").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!((disk.content.as_slice(), torn_at), (&b"one\n"[..], None));
    disk.sync_fails = true;
    assert!(append(&mut disk, &mut torn_at, b"two\n").is_err());
    assert_eq!(disk.content, b"one\n", "what is not durable is not kept either");
}

#[test]
fn remains_that_cannot_be_cut_off_at_once_are_cut_off_before_the_next_write() {
    let mut disk = Failing { room: 6, cut_fails: true, ..Failing::default() };
    let mut torn_at = None;
    append(&mut disk, &mut torn_at, b"one\n").unwrap();
    assert!(append(&mut disk, &mut torn_at, b"two\n").is_err());
    assert_eq!((disk.content.as_slice(), torn_at), (&b"one\ntw"[..], Some(4)));
    assert!(append(&mut disk, &mut torn_at, b"3\n").is_err(), "still can't be cut off");
    disk.cut_fails = false;
    append(&mut disk, &mut torn_at, b"3\n").unwrap();
    assert_eq!((disk.content.as_slice(), torn_at), (&b"one\n3\n"[..], None));
}
