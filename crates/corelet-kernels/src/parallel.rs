//! Work on all threads. Every loop of both libraries goes through [`each`], which is compiled once: rayon's own iterators are
//! a type, and code, of their own at each place that uses them, which came to a fifth of all that the compiler had to do.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// Rows that are one task where each is the work of a microsecond or more.
pub const ROWS: usize = 16;

/// Calls `work(0)`, …, `work(count − 1)` on all threads, in no order.
pub fn each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(work);
}

/// The results of `work` for all items, in the order of the items.
pub fn map<I: Send, T: Send>(items: impl IntoIterator<Item = I>, work: impl Fn(I) -> T + Sync) -> Vec<T> {
    let slots: Vec<Mutex<Slot<I, T>>> =
        items.into_iter().map(|item| Mutex::new(Slot::Waiting(item))).collect();
    each(slots.len(), &|at| {
        let mut slot = slots[at].lock().unwrap_or_else(PoisonError::into_inner);
        if let Slot::Waiting(item) = std::mem::replace(&mut *slot, Slot::Taken) {
            *slot = Slot::Done(work(item));
        }
    });
    let done = |slot: Mutex<Slot<I, T>>| match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Slot::Done(result) => result,
        Slot::Waiting(_) | Slot::Taken => unreachable!("each index is worked on, or its panic goes on"),
    };
    slots.into_iter().map(done).collect()
}

enum Slot<I, T> {
    Waiting(I),
    Taken,
    Done(T),
}

/// 0..n in parts of `size`, the last of which may be shorter.
pub fn parts(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(size).map(move |start| start..n.min(start + size))
}

/// Both, at the same time where a thread is idle.
pub fn both(first: &mut (dyn FnMut() + Send), second: &mut (dyn FnMut() + Send)) {
    rayon::join(first, second);
}

/// The first number that is so: a part at a time without a branch, and then inside it.
pub fn first<T: Sync>(numbers: &[T], is_so: impl Fn(&T) -> bool + Sync) -> Option<usize> {
    /// Numbers that one thread looks at.
    const PART: usize = 1 << 16;
    let holds = |part: &[T]| part.iter().fold(false, |any, number| any | is_so(number));
    let start = PART * map(numbers.chunks(PART), holds).into_iter().position(|found| found)?;
    Some(start + numbers[start..].iter().position(&is_so)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let mut numbers = vec![1_u32; 1000];
        let sums = map(numbers.chunks_mut(7).enumerate(), |(at, part)| {
            part.iter_mut().for_each(|x| *x = at as u32);
            part.len()
        });
        assert_eq!(sums.iter().sum::<usize>(), 1000);
        assert_eq!(sums.last(), Some(&6));
        assert!(numbers.iter().enumerate().all(|(i, &x)| x as usize == i / 7));
    }

    #[test]
    fn parts_cover_everything_once() {
        assert_eq!(parts(10, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..10]);
        assert_eq!(parts(0, 4).count(), 0);
    }

    #[test]
    fn the_first_is_found_wherever_it_is() {
        let mut numbers = vec![0.0; (1 << 16) + 10];
        assert_eq!(first(&numbers, |x| *x > 0.0), None);
        numbers[(1 << 16) + 3] = 1.0;
        assert_eq!(first(&numbers, |x| *x > 0.0), Some((1 << 16) + 3));
        numbers[5] = 1.0;
        assert_eq!(first(&numbers, |x| *x > 0.0), Some(5));
    }

    #[test]
    #[should_panic(expected = "third")]
    fn a_panic_goes_on() {
        let _: Vec<()> = map(0..5, |at| assert!(at != 3, "third"));
    }
}
