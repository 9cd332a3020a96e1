//! Field and points of each kind of lanes, against big integers and libsecp256k1.

use num_bigint::BigUint;
use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};

use crate::scan::curve::{self, Addend, Affine, Inversions, Jacobian};
use crate::scan::field::{MASK, ONE, One, TOP, canonical};
use crate::scan::lanes::{Lanes, Limbs, Times};
use crate::scan::number::{self, LAMBDA, Number, ORDER, PRIME};
use crate::scan::schedule::{MULTIPLES, Schedule};
use crate::scan::table;

fn big(limbs: &Limbs) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 52_u32) + limb)
}

fn big_number(number: &Number) -> BigUint {
    BigUint::from_bytes_be(&number::to_be_bytes(number))
}

/// Reduced elements: edges, then some without order.
fn elements() -> Vec<Limbs> {
    let prime = [PRIME[0] & MASK, MASK, MASK, MASK, TOP];
    let mut elements = vec![
        [0; 5],
        ONE,
        prime,
        [prime[0] - 1, MASK, MASK, MASK, TOP],
        [prime[0] + 1, MASK, MASK, MASK, TOP],
        [MASK, MASK, MASK, MASK, TOP],
        // The most that a reduction leaves.
        [MASK, MASK, MASK, MASK, TOP + 64],
        [0, 0, 0, 0, TOP + 64],
        [MASK, 0, 0, 0, 0],
        [0, MASK, 0, MASK, 0],
        [0, 0, 0, 0, TOP],
        [1 << 51, 1 << 51, 1 << 51, 1 << 51, 1 << 47],
    ];
    let mut state = 1_u64;
    for _ in 0..40 {
        elements.push(std::array::from_fn(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> (if at == 4 { 16 } else { 12 })
        }));
    }
    elements
}

fn is_reduced(limbs: &Limbs) -> bool {
    limbs[..4].iter().all(|limb| *limb <= MASK) && limbs[4] <= TOP + 64
}

/// Computes with one pair of elements a lane.
fn on_pairs<L: Lanes>(f: L, check: impl Fn(&[Limbs], &[Limbs], L::Element, L::Element)) {
    let elements = elements();
    let pairs: Vec<_> = elements.iter().flat_map(|a| elements.iter().map(move |b| (*a, *b))).collect();
    for pairs in pairs.chunks(L::WIDTH) {
        let lane = |lane: usize| &pairs[lane % pairs.len()];
        let a: Vec<_> = (0..L::WIDTH).map(|at| lane(at).0).collect();
        let b: Vec<_> = (0..L::WIDTH).map(|at| lane(at).1).collect();
        check(&a, &b, f.load(|lane| &a[lane]), f.load(|lane| &b[lane]));
    }
}

fn stored<L: Lanes>(f: L, element: &L::Element) -> Vec<Limbs> {
    let mut limbs = vec![[0; 5]; L::WIDTH];
    f.store(element, &mut limbs);
    assert!(limbs.iter().all(is_reduced), "{limbs:x?}");
    limbs
}

fn check_field<L: Lanes>(f: L) {
    let prime = big_number(&PRIME);
    let same = |of: &str, element: &L::Element, expected: &dyn Fn(usize) -> BigUint| {
        for (lane, limbs) in stored(f, element).iter().enumerate() {
            let expected = expected(lane) % &prime;
            assert_eq!(big(limbs) % &prime, expected, "{of} in lane {lane}");
            assert_eq!(big_number(&canonical(limbs)), expected, "canonical {of} in lane {lane}");
        }
    };
    on_pairs(f, |a, b, x, y| {
        let (p, q) = (|lane: usize| big(&a[lane]), |lane: usize| big(&b[lane]));
        let minus = |number: BigUint| &prime * 40_u32 - number;
        same("product", &f.multiply(&x, &y), &|lane| p(lane) * q(lane));
        same("square", &f.square(&x), &|lane| p(lane) * p(lane));
        same("a - b", &f.sum::<1, 1, 0>(&x, &y, &y), &|lane| p(lane) + minus(q(lane)));
        same("-a", &f.sum::<0, 1, 0>(&x, &x, &x), &|lane| minus(p(lane)));
        same("2a", &f.sum::<2, 0, 0>(&x, &y, &y), &|lane| p(lane) * 2_u32);
        same("a - 8b", &f.sum::<1, 8, 0>(&x, &y, &y), &|lane| p(lane) + minus(q(lane) * 8_u32));
        same("a - b - 2a", &f.sum::<1, 1, 2>(&x, &y, &x), &|lane| p(lane) + minus(q(lane) + p(lane) * 2_u32));
        same("a - b - a", &f.sum::<1, 1, 1>(&x, &y, &x), &|lane| minus(q(lane)));
        let (three, four) = (f.sum::<3, 0, 0>(&x, &x, &x), f.sum::<4, 2, 0>(&y, &x, &x));
        let times_four = |lane: usize| q(lane) * 4_u32 + minus(p(lane) * 2_u32);
        same("3a (4b - 2a)", &f.multiply(&three, &four), &|lane| p(lane) * 3_u32 * times_four(lane));
        same("(4b - 2a)^2", &f.square(&four), &|lane| times_four(lane).pow(2));
        let small = f.sum::<1, 1, 0>(&x, &f.sum::<1, 2, 0>(&y, &x, &x), &f.sum::<1, 2, 0>(&y, &x, &x));
        let expected = |lane: usize| p(lane) * 3_u32 + minus(q(lane));
        same("(3a - b)^2, nearly the most", &f.square(&small), &|lane| expected(lane).pow(2));
        same("(3a - b)(4b - 2a)", &f.multiply(&small, &four), &|lane| expected(lane) * times_four(lane));
        let zeros = f.zeros(&x);
        for lane in 0..L::WIDTH {
            assert_eq!(zeros >> lane & 1 == 1, p(lane) % &prime == BigUint::ZERO, "zero in lane {lane}");
        }
        let mask = 0b1010_0110_0101_1001 & f.all();
        let selected = stored(f, &f.select(mask, &x, &y));
        for (lane, selected) in selected.iter().enumerate() {
            let chosen = if mask >> lane & 1 == 1 { a[lane] } else { b[lane] };
            assert_eq!(canonical(selected), canonical(&chosen), "selected in lane {lane}");
        }
    });
    let inverted: Vec<_> = elements().iter().map(|limbs| f.splat(limbs)).collect();
    let mut inversions = Inversions::new(inverted.len(), inverted[0]);
    inversions.elements.copy_from_slice(&inverted);
    inversions.invert(f, inverted.len());
    for (at, element) in inverted.iter().enumerate() {
        let is_zero = f.zeros(element) != 0;
        assert_eq!(inversions.exceptions[at], if is_zero { f.all() } else { 0 });
        let product = f.multiply(element, &inversions.elements[at]);
        assert!(is_zero || stored(f, &product).iter().all(|limbs| canonical(limbs) == [1, 0, 0, 0]));
    }
}

fn key(number: u8) -> PublicKey {
    SecretKey::from_slice(&[number; 32]).unwrap().public_key(SECP256K1)
}

fn point<L: Lanes>(f: L, keys: &[PublicKey]) -> Affine<L::Element> {
    let entries: Vec<_> = keys.iter().map(table::point_of).collect();
    Affine { x: f.load(|lane| &entries[lane].x), y: f.load(|lane| &entries[lane].y) }
}

/// The points of lanes; `None` for infinity and after an exception.
fn keys<L: Lanes>(f: L, point: &Jacobian<L::Element>) -> Vec<Option<PublicKey>> {
    let mut inversions = Inversions::new(1, point.x);
    let mut affine = [Affine { x: point.x, y: point.w }];
    curve::affine_all(f, &[*point], &mut affine, &mut inversions);
    affine_keys(f, &affine[0], inversions.exceptions[0])
}

/// The points of lanes, but for some that are `None`.
fn affine_keys<L: Lanes>(f: L, point: &Affine<L::Element>, without: u32) -> Vec<Option<PublicKey>> {
    let (x, y) = (stored(f, &point.x), stored(f, &point.y));
    let coordinate = |limbs: &Limbs| number::to_be_bytes(&canonical(limbs));
    let key = |lane: usize| {
        let bytes = [&[4][..], &coordinate(&x[lane]), &coordinate(&y[lane])].concat();
        (without >> lane & 1 == 0).then(|| PublicKey::from_slice(&bytes).unwrap())
    };
    (0..L::WIDTH).map(key).collect()
}

fn check_points<L: Lanes>(f: L) {
    let one = f.splat(&ONE);
    let first: Vec<_> = (0..L::WIDTH).map(|lane| key(1 + u8::try_from(lane).unwrap())).collect();
    // Lane 0: equal points. Lane 1: opposite ones. The others: sums without exceptions.
    let second: Vec<_> = (0..L::WIDTH)
        .map(|lane| match lane {
            0 => first[0],
            1 => first[1].negate(SECP256K1),
            _ => key(77),
        })
        .collect();
    let addend = |keys: &[PublicKey]| {
        let Affine { x, y } = point(f, keys);
        Addend { x, w: f.sum::<2, 0, 0>(&y, &y, &y) }
    };
    let (a, b) = (point(f, &first), addend(&second));
    let sum = curve::add(f, &addend(&first).point(&one), &b);
    let after = curve::add(f, &sum, &addend(&vec![key(99); L::WIDTH]));
    for (lane, (sum, after)) in keys(f, &sum).into_iter().zip(keys(f, &after)).enumerate() {
        let expected = (lane > 1).then(|| first[lane].combine(&second[lane]).unwrap());
        assert_eq!(sum, expected, "lane {lane}");
        assert_eq!(after, expected.map(|sum| sum.combine(&key(99)).unwrap()), "an exception stays one");
    }
    let mut inversions = Inversions::new(2, one);
    let mut sums = [a, point(f, &second)];
    curve::add_all(f, &mut sums, &[point(f, &second), point(f, &vec![key(99); L::WIDTH])], &mut inversions);
    for (group, (sums, terms)) in sums.iter().zip([(&first, &second), (&second, &vec![key(99); L::WIDTH])]).enumerate()
    {
        let exceptions = inversions.exceptions[group];
        assert_eq!(exceptions, if group == 0 { 0b11 } else { 0 }, "equal and opposite points");
        for (lane, sum) in affine_keys(f, sums, exceptions).into_iter().enumerate() {
            let expected = (exceptions >> lane & 1 == 0).then(|| terms.0[lane].combine(&terms.1[lane]).unwrap());
            assert_eq!(sum, expected, "lane {lane} of group {group}");
        }
    }
    let mut doubled = [a];
    curve::double_all(f, &mut doubled, &mut inversions);
    for (lane, sum) in affine_keys(f, &doubled[0], 0).into_iter().enumerate() {
        assert_eq!(sum, Some(first[lane].combine(&first[lane]).unwrap()), "twice lane {lane}");
    }
    let infinity = Jacobian { x: one, w: one, z: f.splat(&[0; 5]) };
    assert!(keys(f, &curve::add(f, &infinity, &b)).iter().all(Option::is_none), "infinity plus a point");
    let (root, without) = curve::lift(f, &a.x);
    assert_eq!(without, 0);
    let same = f.zeros(&f.sum::<1, 1, 0>(&root, &a.y, &a.y));
    let opposite = f.zeros(&f.sum::<1, 1, 0>(&root, &curve::negate(f, &a.y), &root));
    assert_eq!(same | opposite, f.all());
    assert_eq!(curve::lift(f, &f.splat(&[5, 0, 0, 0, 0])).1, f.all(), "no point has the x coordinate 5");
}

/// Scalars of which a part of the recoding is special.
pub(super) fn special_scalars() -> Vec<Number> {
    let one = [1, 0, 0, 0];
    let both = |a: &Number| [number::add_mod(a, &one), *a, number::add_mod(a, &number::negate_mod(&one))];
    let powers = [[4, 0, 0, 0], [16, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1 << 63]];
    let roots = [LAMBDA, number::negate_mod(&number::add_mod(&LAMBDA, &one)), number::negate_mod(&LAMBDA)];
    let mut scalars = vec![one, [2, 0, 0, 0], number::negate_mod(&one), number::negate_mod(&[2, 0, 0, 0])];
    scalars.extend(powers.iter().chain(&roots).flat_map(both));
    let digits = (0..32).map(|at| number::negate_mod(&[2 * at + 1, 0, 0, 0]));
    scalars.extend(digits);
    scalars.extend((0..32).map(|at| number::add_mod(&LAMBDA, &[at, 0, 0, 0])));
    scalars.extend(far_scalars().iter().flat_map(both));
    scalars
}

/// Scalars that are as far from the lattice of `number::split` as any: half of the sum and of the difference of its
/// vectors, and minus these.
fn far_scalars() -> [Number; 4] {
    let scalar = |first: u128, lambda: Number, second: u128| {
        let product = (0..128).rev().fold([0; 4], |sum, bit| {
            let sum = number::add_mod(&sum, &sum);
            if second >> bit & 1 == 1 { number::add_mod(&sum, &lambda) } else { sum }
        });
        number::add_mod(&product, &[number::low(first), number::low(first >> 64), 0, 0])
    };
    let sum = scalar(
        0xa2a8_918c_a85b_afe2_2016_d0b9_17e4_dd76,
        number::negate_mod(&LAMBDA),
        0x59de_565a_2c9d_0e2d_4373_f762_3c1d_7cd7,
    );
    let difference =
        scalar(0x7221_bf6b_0087_4414_37aa_3fd4_855f_f261, LAMBDA, 0x8a65_287b_d471_79fb_2be0_8846_cea2_67ec);
    [sum, number::negate_mod(&sum), difference, number::negate_mod(&difference)]
}

fn check_multiples<L: Lanes>(f: L) {
    let tweaks: Vec<_> = (0..L::WIDTH).map(|lane| key(101 + u8::try_from(lane).unwrap())).collect();
    let multiples: [_; MULTIPLES] = std::array::from_fn(|at| {
        let odd = Scalar::from_be_bytes(number::to_be_bytes(&[2 * at as u64 + 1, 0, 0, 0])).unwrap();
        point(f, &tweaks.iter().map(|key| key.mul_tweak(SECP256K1, &odd).unwrap()).collect::<Vec<_>>())
    });
    for scalar in special_scalars() {
        assert!(number::is_below(&scalar, &ORDER) && scalar != [0; 4]);
        let schedule = Schedule::of(&scalar).unwrap();
        let product = keys(f, &curve::multiply(f, &schedule, &multiples));
        let scalar = Scalar::from_be_bytes(number::to_be_bytes(&scalar)).unwrap();
        for (product, tweak) in product.iter().zip(&tweaks) {
            assert_eq!(*product, Some(tweak.mul_tweak(SECP256K1, &scalar).unwrap()), "{scalar:?}");
        }
    }
}

#[test]
fn one_lane_computes_as_big_integers_and_libsecp256k1_do() {
    check_field(One);
    check_points(Times::<_, 4>(One));
    check_multiples(Times::<_, 4>(One));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn eight_lanes_compute_as_big_integers_and_libsecp256k1_do() {
    let Some(lanes) = crate::scan::ifma::Ifma::detect() else {
        eprintln!("skipped: this processor lacks AVX-512 IFMA");
        return;
    };
    check_field(lanes);
    check_field(Times::<_, 2>(lanes));
    check_points(lanes);
    check_multiples(lanes);
}

#[test]
fn numbers_halve_negate_and_add_as_big_integers_do() {
    let order = big_number(&ORDER);
    let mut numbers = special_scalars();
    numbers.push([0; 4]);
    for a in &numbers {
        assert_eq!(big_number(&number::half_mod(a)) * 2_u32 % &order, big_number(a));
        assert_eq!((big_number(&number::negate_mod(a)) + big_number(a)) % &order, BigUint::ZERO);
        for b in &numbers {
            assert_eq!(big_number(&number::add_mod(a, b)), (big_number(a) + big_number(b)) % &order);
        }
        let halves = number::split(a);
        for (half, bound) in halves.iter().zip([64_u128, 55]) {
            assert!(half.magnitude / bound < u128::MAX / 100, "{a:?}");
        }
        let [first, second] = halves.map(|half| {
            let magnitude = BigUint::from(half.magnitude);
            if half.is_negative { &order - magnitude } else { magnitude }
        });
        assert_eq!((first + second * big_number(&LAMBDA)) % &order, big_number(a));
    }
}
