//! Counts allocations, when asked to.
//!
//! Off, it costs one relaxed load a call, so that the rows that measure time are not charged for
//! counting: least of all those with many allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that live now, counted from when counting began; freeing older ones makes it negative.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator with the arguments as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note_allocation(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note_free(layout.size());
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note_allocation(layout.size());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note_free(layout.size());
        note_allocation(size);
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn note_allocation(size: usize) {
    if COUNTS.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, Relaxed);
        let live = LIVE.fetch_add(size as i64, Relaxed) + size as i64;
        if live > PEAK.load(Relaxed) {
            PEAK.fetch_max(live, Relaxed);
        }
    }
}

fn note_free(size: usize) {
    if COUNTS.load(Relaxed) {
        LIVE.fetch_sub(size as i64, Relaxed);
    }
}

/// What a piece of work took from the allocator, in all threads.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Calls that gave out memory, reallocations included.
    pub allocations: u64,
    /// The most bytes that lived at once, beyond what lived before.
    pub peak_bytes: u64,
}

/// Counts while `work` runs.
pub fn counted(work: impl FnOnce()) -> Use {
    ALLOCATIONS.store(0, Relaxed);
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    COUNTS.store(true, Relaxed);
    work();
    COUNTS.store(false, Relaxed);
    Use { allocations: ALLOCATIONS.load(Relaxed), peak_bytes: PEAK.load(Relaxed).max(0) as u64 }
}
