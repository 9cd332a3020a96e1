//! The order of doublings and additions that multiplies any point by one scalar.
//!
//! The scan key is the same for all rows, so it is split and recoded once; then all lanes do the same. Whether an
//! addition meets one of its exceptions (infinity, equal or opposite points) depends on the scalar alone, because every
//! point has the same prime order. So a walk with the scalars in the place of the points proves the schedule for all
//! points.

use zeroize::{DefaultIsZeroes, Zeroizing};

use crate::scan::number::{self, Half, LAMBDA, Number};

/// Odd multiples of a point that a schedule adds: 1, 3, .., 15.
pub(super) const MULTIPLES: usize = 8;
/// Bits of a digit with its sign, which belong to [`MULTIPLES`].
const WINDOW: usize = 5;
/// Digits of a half; a carry may go beyond its 128 bits.
const DIGITS: usize = 129;

/// Doublings, then one addition. The first step loads its addend.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) doublings: u8,
    /// Index of the odd multiple.
    pub(super) multiple: u8,
    /// Index of the half: that of the point, or that of the point times [`LAMBDA`].
    pub(super) half: u8,
    pub(super) is_negative: bool,
}

impl DefaultIsZeroes for Step {}

/// The steps of one scalar.
pub(super) struct Schedule {
    pub(super) steps: Zeroizing<Vec<Step>>,
    /// Doublings after the last step.
    pub(super) doublings: u8,
}

impl Schedule {
    /// Makes the schedule of a scalar that is not zero and below the order; `None` if an addition would meet an
    /// exception.
    pub(super) fn of(scalar: &Number) -> Option<Self> {
        let halves = Zeroizing::new(number::split(scalar).map(|half| digits(&half)));
        let mut steps = Zeroizing::new(Vec::with_capacity(2 * DIGITS));
        let mut doublings = 0;
        for at in (0..DIGITS).rev() {
            doublings += u8::from(!steps.is_empty());
            for (half, digits) in (0..).zip(halves.iter()) {
                let digit = digits[at];
                if digit != 0 {
                    let multiple = digit.unsigned_abs() >> 1;
                    steps.push(Step { doublings, multiple, half, is_negative: digit < 0 });
                    doublings = 0;
                }
            }
        }
        let schedule = Self { steps, doublings };
        (schedule.walk() == Some(*scalar)).then_some(schedule)
    }

    /// Does the steps with scalars; `None` at an exception.
    fn walk(&self) -> Option<Number> {
        let mut sum: Option<Number> = None;
        for step in self.steps.iter() {
            let addend = step.scalar();
            sum = Some(match sum {
                None => addend,
                Some(sum) => {
                    let sum = doubled(sum, step.doublings);
                    if sum == [0; 4] || sum == addend || sum == number::negate_mod(&addend) {
                        return None;
                    }
                    number::add_mod(&sum, &addend)
                }
            });
        }
        sum.map(|sum| doubled(sum, self.doublings))
    }
}

impl Step {
    /// The scalar of its addend.
    fn scalar(self) -> Number {
        let unit = if self.half == 0 { [1, 0, 0, 0] } else { LAMBDA };
        let twice = number::add_mod(&unit, &unit);
        let scalar = (0..self.multiple).fold(unit, |sum, _| number::add_mod(&sum, &twice));
        if self.is_negative { number::negate_mod(&scalar) } else { scalar }
    }
}

fn doubled(sum: Number, times: u8) -> Number {
    (0..times).fold(sum, |sum, _| number::add_mod(&sum, &sum))
}

/// Signed odd digits with at least four zeros between them, the least significant first.
fn digits(half: &Half) -> [i8; DIGITS] {
    let bits = |at: usize, count: usize| {
        let from = if at < 128 { half.magnitude >> at } else { 0 };
        i8::try_from(from & ((1 << count) - 1)).expect("at most five bits")
    };
    let mut digits = [0; DIGITS];
    let (mut at, mut carry) = (0, 0);
    while at < DIGITS {
        if bits(at, 1) == carry {
            at += 1;
            continue;
        }
        let digit = bits(at, WINDOW) + carry;
        carry = digit >> (WINDOW - 1) & 1;
        let digit = digit - (carry << WINDOW);
        digits[at] = if half.is_negative { -digit } else { digit };
        at += WINDOW;
    }
    digits
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn schedules_of_special_scalars_have_no_exceptions() {
        let one = [1, 0, 0, 0];
        let square = number::negate_mod(&number::add_mod(&LAMBDA, &one));
        let minus_one = number::negate_mod(&one);
        let power = [0, 0, 1, 0];
        for scalar in [
            one,
            [2, 0, 0, 0],
            [15, 0, 0, 0],
            [31, 0, 0, 0],
            minus_one,
            LAMBDA,
            square,
            number::add_mod(&LAMBDA, &one),
            number::add_mod(&LAMBDA, &minus_one),
            number::negate_mod(&LAMBDA),
            power,
            number::add_mod(&power, &one),
            number::add_mod(&power, &minus_one),
        ] {
            let schedule = Schedule::of(&scalar).unwrap();
            assert!(schedule.steps.len() <= 2 * DIGITS.div_ceil(WINDOW));
        }
    }

    #[test]
    fn the_walk_refuses_exceptions() {
        let step = |doublings, multiple, half, is_negative| Step { doublings, multiple, half, is_negative };
        let walk = |steps: &[Step]| Schedule { steps: Zeroizing::new(steps.to_vec()), doublings: 0 }.walk();
        assert_eq!(walk(&[step(0, 0, 0, false), step(1, 0, 0, false)]), Some([3, 0, 0, 0]));
        assert_eq!(walk(&[step(0, 1, 0, false), step(0, 1, 0, false)]), None, "P + P");
        assert_eq!(walk(&[step(0, 1, 0, false), step(0, 1, 0, true)]), None, "P - P");
        assert_eq!(walk(&[step(0, 2, 1, true), step(0, 2, 1, false)]), None, "of the second half");
    }
}
