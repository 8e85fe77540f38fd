//! Where the log file lies: checked before the database driver opens it, because the driver would
//! only say "unable to open".

use std::io::ErrorKind;
use std::path::Path;

use crate::error::LocalError;

/// Which file a path means: device and inode.
pub(crate) type FileIdentity = (u64, u64);

/// Finds what is in the way of opening the file, or of creating it.
pub(crate) fn check(path: &Path, create: bool) -> Result<(), LocalError> {
    let cannot_open = |reason: String| LocalError::CannotOpen { path: path.to_owned(), reason };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(metadata) if metadata.is_dir() => {
            Err(cannot_open("it is a directory; give the path of a file in it".to_owned()))
        }
        Ok(_) => Err(cannot_open("it is not a regular file".to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound && !create => {
            Err(LocalError::NoSuchFile { path: path.to_owned() })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            if folder.is_dir() {
                Ok(())
            } else {
                let folder = folder.display();
                Err(cannot_open(format!("the folder {folder} does not exist; create it first")))
            }
        }
        Err(error) => Err(cannot_open(format!("{error}; check the permissions"))),
    }
}

/// Which file the path means now; `None` if there is none.
#[cfg(unix)]
pub(crate) fn identity(path: &Path) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Elsewhere an open file can't be deleted, so there is nothing to compare.
#[cfg(not(unix))]
pub(crate) fn identity(_: &Path) -> Option<FileIdentity> {
    None
}
