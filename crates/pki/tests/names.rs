//! Names against an implementation that is as plain as can be, and against what went wrong elsewhere.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::IpAddr;

use kallisto_pki::San;
use kallisto_pki::names::{AddressBlock, NameRules, WantedNames, allows, grant, is_like};

/// Names of these, so that many are close to what a role says.
const LABELS: &[&str] = &[
    "a",
    "b",
    "A",
    "example",
    "EXAMPLE",
    "com",
    "localhost",
    "localdomain",
    "xn--e1afmkfd",
    "x-y",
    "-x",
    "x-",
    "",
    "*",
    "*a",
    "a*",
    "a*b",
    "**",
    "a_b",
    "0",
    "bob",
];

fn random_host(random: &mut fastrand::Rng) -> String {
    let count = random.usize(1..5);
    let labels: Vec<&str> = (0..count).map(|_| LABELS[random.usize(..LABELS.len())]).collect();
    labels.join(".")
}

fn random_name(random: &mut fastrand::Rng) -> String {
    match random.usize(..8) {
        0 => format!("{}@{}", ["a", "", "bob", "b@b"][random.usize(..4)], random_host(random)),
        1 => ["free text", "Bob", "a.example.com.", "a\u{0}b", "bücher.example"][random.usize(..5)]
            .to_owned(),
        _ => random_host(random),
    }
}

fn random_rules(random: &mut fastrand::Rng) -> NameRules {
    let domains = (0..random.usize(..3)).map(|_| match random.usize(..6) {
        0 => format!("*.{}", random_host(random)),
        1 => "a@example.com".to_owned(),
        2 => "example.com".to_owned(),
        3 => "com".to_owned(),
        _ => random_host(random),
    });
    NameRules {
        domains: domains.collect(),
        allow_any_name: random.usize(..6) == 0,
        allow_bare_domains: random.bool(),
        allow_subdomains: random.bool(),
        allow_glob_domains: random.bool(),
        allow_localhost: random.bool(),
        allow_wildcards: random.bool(),
        enforce_hostnames: random.bool(),
        display_name: random.bool().then(|| "bob.example.com".to_owned()),
        ..NameRules::default()
    }
}

/// The rules as the contract tells them, on the text.
fn reference(rules: &NameRules, given: &str) -> bool {
    let name = given.to_lowercase();
    let label = |label: &str| {
        let word = |c: char| c.is_ascii_alphanumeric();
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(|c| word(c) || c == '-')
            && label.starts_with(word)
            && label.ends_with(word)
    };
    let host = |text: &str| text.split('.').all(label);
    if given.is_empty() || given.contains('\0') {
        return false;
    }
    let (mut base, mut wild, mut mail) = (name.clone(), false, false);
    if let Some((local, domain)) = name.split_once('@') {
        if local.is_empty() || local.contains('*') || domain.contains('@') || !host(domain) {
            return false;
        }
        (base, mail) = (domain.to_owned(), true);
    } else if name.contains('*') {
        let Some((first, rest)) = name.split_once('.') else { return false };
        let fixed = first.replacen('*', "", 1);
        let is_end = first.starts_with('*') || first.ends_with('*');
        if !is_end
            || !(fixed.is_empty() || label(&fixed))
            || first.starts_with("xn--")
            || !host(rest)
        {
            return false;
        }
        (base, wild) = (rest.to_owned(), true);
    }
    if (wild && !rules.allow_wildcards) || (rules.enforce_hostnames && !host(&base)) {
        return false;
    }
    let below =
        |domain: &str| base.len() > domain.len() + 1 && base.ends_with(&format!(".{domain}"));
    let below = |domain: &str| below(domain) || (wild && base == domain);
    let local = |domain: &str| {
        rules.allow_localhost
            && ((!wild && base == domain) || (rules.allow_subdomains && below(domain)))
    };
    let caller = |caller: &String| name == *caller || (rules.allow_subdomains && below(caller));
    let domain = |domain: &String| {
        let domain = domain.to_lowercase();
        !domain.is_empty()
            && ((rules.allow_bare_domains && (name == domain || (mail && base == domain)))
                || (rules.allow_subdomains && below(&domain))
                || (rules.allow_glob_domains && domain.contains('*') && glob(&domain, &name)))
    };
    rules.allow_any_name
        || local("localhost")
        || local("localdomain")
        || rules.display_name.as_ref().is_some_and(caller)
        || rules.domains.iter().any(domain)
}

/// Patterns, by trying everything.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(rest) => (0..=text.len())
            .filter(|at| text.is_char_boundary(*at))
            .any(|at| glob(rest, &text[at..])),
        None => match (pattern.chars().next(), text.chars().next()) {
            (None, None) => true,
            (Some(wanted), Some(found)) if wanted == found => {
                glob(&pattern[wanted.len_utf8()..], &text[found.len_utf8()..])
            }
            _ => false,
        },
    }
}

#[test]
fn random_roles_and_names_are_decided_as_by_the_plain_reference() {
    let mut random = fastrand::Rng::with_seed(84);
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let rules = random_rules(&mut random);
        let name = random_name(&mut random);
        // Of names that are not ASCII the reference knows nothing; the last label of a name with A-labels may be no name at all.
        if !name.is_ascii()
            || name.to_lowercase().contains("xn--") && allows(&rules, &name).is_none()
        {
            continue;
        }
        let expected = reference(&rules, &name);
        let found = allows(&rules, &name);
        assert_eq!(found.is_some(), expected, "{name:?} by {rules:?}");
        match expected {
            true => allowed += 1,
            false => refused += 1,
        }
        // What is allowed is allowed in the spelling that the certificate has, and that is its own spelling.
        if let Some(spelled) = found {
            assert_eq!(allows(&rules, &spelled), Some(spelled.clone()), "{name:?}");
        }
    }
    assert!(allowed > 5_000 && refused > 5_000, "{allowed} {refused}");
}

#[test]
fn patterns_are_as_by_trying_everything() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..100_000 {
        let mut text = |letters: &[&str], most| {
            (0..random.usize(..most)).map(|_| letters[random.usize(..letters.len())]).collect()
        };
        let pattern: String = text(&["a", "b", "*", "."], 7);
        let name: String = text(&["a", "b", "."], 9);
        assert_eq!(is_like(&pattern, &name), glob(&pattern, &name), "{pattern} {name}");
    }
}

fn role() -> NameRules {
    NameRules {
        domains: vec!["example.com".to_owned(), "Müller.example".to_owned()],
        allow_bare_domains: true,
        allow_subdomains: true,
        allow_wildcards: true,
        enforce_hostnames: true,
        allow_ip_sans: true,
        ip_networks: vec![AddressBlock::parse("10.0.0.0/8").unwrap()],
        uri_sans: vec!["spiffe://example.com/*".to_owned()],
        ..NameRules::default()
    }
}

/// A wildcard where subdomains are not allowed (CVE-2022-25243).
#[test]
fn a_wildcard_is_below_its_domain_and_not_it() {
    let rules = NameRules { allow_subdomains: false, ..role() };
    assert!(allows(&rules, "example.com").is_some());
    for name in ["*.example.com", "*example.com", "a.example.com", "*.*.example.com", "*", "*.com"]
    {
        assert_eq!(allows(&rules, name), None, "{name}");
    }
    let rules = NameRules { allow_bare_domains: false, ..role() };
    assert_eq!(allows(&rules, "example.com"), None);
    assert_eq!(allows(&rules, "*.example.com").as_deref(), Some("*.example.com"));
    let any = NameRules { allow_any_name: true, allow_wildcards: false, ..role() };
    assert_eq!(allows(&any, "*.example.com"), None);
}

/// Every limit holds for names of a body and for names of a certificate request alike (GHSA-g892-p242-8g86).
#[test]
fn limits_hold_wherever_a_name_comes_from() {
    let ip: IpAddr = "11.1.1.1".parse().unwrap();
    let other = kallisto_pki::san::parse_other("1.2.3.4;UTF8:x").unwrap();
    let cases: [(&str, WantedNames); 7] = [
        ("common name", WantedNames { common_name: "a.evil".to_owned(), ..WantedNames::default() }),
        ("DNS", WantedNames { names: vec!["a.evil".to_owned()], ..WantedNames::default() }),
        ("e-mail", WantedNames { names: vec!["x@a.evil".to_owned()], ..WantedNames::default() }),
        ("IP", WantedNames { ips: vec![ip], ..WantedNames::default() }),
        ("URI", WantedNames { uris: vec!["spiffe://evil/x".to_owned()], ..WantedNames::default() }),
        ("other", WantedNames { others: vec![other], ..WantedNames::default() }),
        ("serial", WantedNames { serial_number: "1".to_owned(), ..WantedNames::default() }),
    ];
    for (kind, wanted) in cases {
        for is_of_csr in [false, true] {
            let wanted = WantedNames { is_of_csr, ..wanted.clone() };
            assert!(grant(&role(), &wanted).is_err(), "{kind} {is_of_csr}");
        }
    }
}

#[test]
fn an_address_has_one_mailbox_and_one_host() {
    let rules = role();
    assert_eq!(allows(&rules, "bob@example.com").as_deref(), Some("bob@example.com"));
    for name in
        ["x@example.com@evil", "x@evil@example.com", "@example.com", "x@", "x y@example.com"]
    {
        assert_eq!(allows(&rules, name), None, "{name}");
    }
    let only_bob = NameRules { domains: vec!["bob@example.com".to_owned()], ..role() };
    assert!(allows(&only_bob, "bob@example.com").is_some());
    assert_eq!(allows(&only_bob, "eve@example.com"), None);
}

#[test]
fn case_does_not_count_and_certificates_have_lower_case() {
    let mut random = fastrand::Rng::with_seed(87);
    for name in ["a.example.com", "example.com", "*.a.example.com", "x@a.example.com"] {
        for _ in 0..200 {
            let flip = |c: char| if random.bool() { c.to_ascii_uppercase() } else { c };
            let (local, host) = name.split_once('@').map_or(("", name), |(l, h)| (l, h));
            let host: String = host.chars().map(flip).collect();
            let at = if local.is_empty() { "" } else { "@" };
            let flipped = format!("{local}{at}{host}");
            assert_eq!(allows(&role(), &flipped).as_deref(), Some(name), "{flipped}");
        }
    }
}

#[test]
fn names_of_other_scripts_are_a_labels() {
    let rules = role();
    let spelled = Some("xn--bcher-kva.example.com");
    assert_eq!(allows(&rules, "bücher.example.com").as_deref(), spelled);
    assert_eq!(allows(&rules, "BÜCHER.example.com").as_deref(), spelled);
    assert_eq!(allows(&rules, "xn--bcher-kva.example.com").as_deref(), spelled);
    assert!(allows(&rules, "a.xn--mller-kva.example").is_some(), "domains of roles are as well");
    for name in
        ["xn--a.example.com", "a\u{202e}b.example.com", "ex\u{ad}ample.com\u{0}", "ä_b.example.com"]
    {
        assert_eq!(allows(&rules, name), None, "{name:?}");
    }
    let wanted =
        WantedNames { common_name: "bücher.example.com".to_owned(), ..WantedNames::default() };
    let granted = grant(&rules, &wanted).unwrap();
    assert_eq!(granted.alt_names, [San::Dns("xn--bcher-kva.example.com".to_owned())]);
}

#[test]
fn networks_hold_what_has_their_first_bits() {
    let holds =
        |network: &str, ip: &str| AddressBlock::parse(network).unwrap().holds(ip.parse().unwrap());
    assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
    assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
    assert!(holds("::/0", "2001:db8::1") && !holds("2001:db8::/32", "2001:db9::1"));
    assert!(holds("1.2.3.4/32", "1.2.3.4") && !holds("1.2.3.4/32", "1.2.3.5"));
    for wrong in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129", "10.0.0.0/-1", ""] {
        assert!(AddressBlock::parse(wrong).is_err(), "{wrong}");
    }
}

/// What is not checked as a common name is checked as the alternative name that it becomes.
#[test]
fn an_unchecked_common_name_is_no_unchecked_alternative_name() {
    let rules = NameRules { cn_validations: vec!["disabled".to_owned()], ..role() };
    let of = |common_name: &str, excludes_cn| {
        let common_name = common_name.to_owned();
        grant(&rules, &WantedNames { common_name, excludes_cn, ..WantedNames::default() })
    };
    for name in ["a.evil", "*.evil", "x@a.evil"] {
        assert!(of(name, false).is_err(), "{name}");
        let granted = of(name, true).unwrap();
        assert_eq!((granted.common_name.as_str(), &granted.alt_names[..]), (name, &[][..]));
    }
    assert_eq!(of("Free Text", false).unwrap().alt_names, []);
    assert_eq!(of("a.example.com", false).unwrap().alt_names.len(), 1);
}

/// A name that ends in a number is an address to those who read it, or nothing (RFC 1123, 2.1): as a DNS name it stands in no certificate, and as a
/// common name it is held to the limits of addresses.
#[test]
fn addresses_are_held_to_their_limits_wherever_they_stand() {
    let any = NameRules { allow_any_name: true, ..role() };
    let of = |rules: &NameRules, common_name: &str, name: Option<&str>| {
        let names = name.map(str::to_owned).into_iter().collect();
        grant(
            rules,
            &WantedNames { common_name: common_name.to_owned(), names, ..WantedNames::default() },
        )
    };
    let fine = of(&any, "10.1.1.1", None).unwrap();
    assert_eq!((fine.common_name.as_str(), &fine.alt_names[..]), ("10.1.1.1", &[][..]));
    assert!(of(&any, "11.1.1.1", None).is_err(), "not of the network");
    assert!(of(&NameRules { allow_ip_sans: false, ..any.clone() }, "10.1.1.1", None).is_err());
    let numbered = of(&any, "12345", None).unwrap();
    assert_eq!((numbered.common_name.as_str(), &numbered.alt_names[..]), ("12345", &[][..]));
    for name in ["10.1.1.1", "1.2.3", "12345", "a.b.7", "*.7"] {
        assert!(of(&any, "a.example.com", Some(name)).is_err(), "{name}");
    }
    assert!(of(&any, "a.example.com", Some("7.a")).is_ok());
}

#[test]
fn what_is_no_uri_and_no_mailbox_is_refused() {
    let any = NameRules { allow_any_name: true, uri_sans: vec!["*".to_owned()], ..role() };
    let uri = |uri: &str| {
        grant(&any, &WantedNames { uris: vec![uri.to_owned()], ..WantedNames::default() }).is_ok()
    };
    for fine in [
        "https://user@example.com:8443/",
        "spiffe://example.com/ns/a",
        "https://example.com/x?y=1#z",
        "urn:uuid:1",
        "mailto:a@example.com",
        "spiffe://x/%7e",
        "https://[2001:db8::1]:8443/x",
    ] {
        assert!(uri(fine), "{fine}");
    }
    for wrong in [
        "",
        "no-scheme",
        "//a/b",
        ":x",
        "1a://x",
        "x:",
        "http://",
        "http:///x",
        "spiffe://ex ample/x",
        "spiffe://x/%zz",
        "spiffe://x/%2",
        "spiffe://x/\u{0}",
        "spiffe://x/\n",
        "https://m\u{fc}ller.example/",
        "a://b\"c",
        "https://[::1/x",
        "https://a:b/x",
        "https://a#b#c",
    ] {
        assert!(!uri(wrong), "{wrong:?}");
    }
    assert!(allows(&any, "a.b+c@example.com").is_some());
    let long = format!("{}@example.com", "q".repeat(65));
    for wrong in [".a@example.com", "a.@example.com", "a..b@example.com", long.as_str()] {
        assert_eq!(allows(&any, wrong), None, "{wrong}");
    }
}

#[test]
fn subjects_keep_the_limits_of_x520() {
    let over = |subject: kallisto_pki::CertificateSubject| subject.to_der().is_err();
    let subject = kallisto_pki::CertificateSubject::default;
    assert!(over(kallisto_pki::CertificateSubject { common_name: "a".repeat(65), ..subject() }));
    assert!(!over(kallisto_pki::CertificateSubject { common_name: "ä".repeat(64), ..subject() }));
    assert!(over(kallisto_pki::CertificateSubject {
        country: vec!["GER".to_owned()],
        ..subject()
    }));
    assert!(over(kallisto_pki::CertificateSubject {
        organization: vec!["o".repeat(65)],
        ..subject()
    }));
    assert!(over(kallisto_pki::CertificateSubject {
        locality: vec!["l\u{0}".to_owned()],
        ..subject()
    }));
    // A PrintableString, by its type.
    assert!(over(kallisto_pki::CertificateSubject {
        serial_number: "a_b".to_owned(),
        ..subject()
    }));
    assert!(!over(kallisto_pki::CertificateSubject {
        serial_number: "sn-1 (2)".to_owned(),
        ..subject()
    }));
}

#[test]
fn a_block_of_addresses_is_told_as_it_stands_in_constraints() {
    for (given, told) in [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("192.0.2.1/32", "192.0.2.1/32"),
        ("2001:db8:1::/32", "2001:db8::/32"),
        ("::/0", "::/0"),
        ("::1/128", "::1/128"),
    ] {
        let constraint = AddressBlock::parse(given).unwrap().to_constraint();
        let block = AddressBlock::from_constraint(&constraint).unwrap();
        assert_eq!(block.to_string(), told);
        assert_eq!(block.to_constraint(), constraint);
    }
    for wrong in [&[][..], &[10, 0, 0, 0, 255, 0, 255, 0], &[0; 7], &[0; 16], &[0; 33]] {
        assert_eq!(AddressBlock::from_constraint(wrong), None, "{wrong:?}");
    }
}
