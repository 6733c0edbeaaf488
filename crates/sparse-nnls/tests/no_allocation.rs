//! Nothing is allocated inside A-IHT's loop.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::random_matrix;
use sparse_nnls::{HardThresholding, Method, Settings, Solver};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[allow(unsafe_code)] // the only way to count allocations: forwards everything to the system allocator
// SAFETY: every call is passed on unchanged to `System`, which upholds the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_iht_does_not_allocate_after_its_first_iterations() {
    let phi = random_matrix(2, 5000, 50).dense();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let settings = HardThresholding { tolerance: 1e-300, ..Default::default() };
    for method in [Method::Iht(settings), Method::AIht(settings), Method::AIht2(settings)] {
        let mut counts = Vec::with_capacity(400);
        pool.install(|| {
            let settings = Settings { k: 40, ..Settings::default() };
            let callback = |_: &sparse_nnls::Info| {
                counts.push(ALLOCATIONS.load(Ordering::Relaxed));
                ControlFlow::Continue(())
            };
            Solver::new(&phi, settings).callback(callback).run(&method).unwrap();
        });
        assert!(counts.len() > 100, "{} stopped after {}", method.name(), counts.len());
        assert_eq!(counts[10], counts[99], "{} allocates in its loop", method.name());
    }
}
