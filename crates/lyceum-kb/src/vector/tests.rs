//! Quantised vectors keep their direction and survive storage.

use proptest::prelude::*;

use super::*;

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn nothing_and_nonsense_become_zero_vectors() {
    for vector in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[1e-45, 0.0], &[]] {
        let quantized = Quantized::new(vector);
        assert_eq!(quantized, Quantized { scale: 0.0, values: vec![0; vector.len()] });
        assert_eq!(Quantized::from_bytes(&quantized.to_bytes()), Some(quantized));
    }
}

#[test]
fn huge_components_do_not_overflow() {
    assert_eq!(Quantized::new(&[f32::MAX, -f32::MAX]).values, [127, -127]);
}

#[test]
fn bytes_that_hold_no_vector_are_refused() {
    for bytes in [
        &[][..],
        &[0; 3],
        &f32::NAN.to_le_bytes(),
        &f32::INFINITY.to_le_bytes(),
        &2.0_f32.to_le_bytes(),
        &(-1.0_f32).to_le_bytes(),
    ] {
        assert_eq!(Quantized::from_bytes(bytes), None, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn direction_survives(vector in prop::collection::vec(-1.0_f32..1.0, 8..64)) {
        prop_assume!(vector.iter().any(|value| value.abs() > 0.01));
        let quantized = Quantized::new(&vector);
        let back = quantized.to_f32();
        prop_assert!(cosine(&vector, &back) > 0.999);
        prop_assert!((back.iter().map(|v| v * v).sum::<f32>() - 1.0).abs() < 0.05);
        prop_assert_eq!(Quantized::from_bytes(&quantized.to_bytes()), Some(quantized));
    }

    #[test]
    fn any_bytes_are_a_vector_or_refused(bytes in any::<Vec<u8>>()) {
        if let Some(quantized) = Quantized::from_bytes(&bytes) {
            prop_assert_eq!(quantized.to_bytes(), bytes);
        }
    }

    #[test]
    fn any_floats_can_be_quantized(vector in any::<Vec<f32>>()) {
        prop_assert_eq!(Quantized::new(&vector).values.len(), vector.len());
    }
}
