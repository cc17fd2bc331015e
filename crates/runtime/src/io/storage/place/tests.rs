//! Tests of reading places.

use super::{BucketPlace, Place, Provider, parse};

fn bucket(provider: Provider, bucket: &str, prefix: &str) -> Place {
    Place::Bucket(BucketPlace { provider, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
}

#[test]
fn a_url_of_a_bucket_is_taken_apart_and_put_together_again() {
    let cases = [
        ("s3://b", bucket(Provider::S3, "b", ""), "s3://b"),
        ("s3://b/", bucket(Provider::S3, "b", ""), "s3://b"),
        ("s3a://b/x/y/", bucket(Provider::S3, "b", "x/y"), "s3://b/x/y"),
        ("gs://my-bucket.of/x y", bucket(Provider::Gs, "my-bucket.of", "x y"), "gs://my-bucket.of/x y"),
        ("gcs://b/x", bucket(Provider::Gs, "b", "x"), "gs://b/x"),
        ("azure://b/x", bucket(Provider::Az, "b", "x"), "az://b/x"),
    ];
    for (location, expected, url) in cases {
        let place = parse(location).expect(location);
        assert_eq!(place, expected, "{location}");
        let Place::Bucket(place) = place else { panic!("{location}") };
        assert_eq!(place.to_string(), url);
    }
}

#[test]
fn a_place_below_another_has_its_name_behind_it() {
    let Place::Bucket(root) = parse("s3://b").expect("a place") else { panic!("a bucket") };
    assert_eq!((root.last(), root.join("job").to_string()), ("b", "s3://b/job".to_owned()));
    let below = root.join("x").join("job");
    assert_eq!((below.last(), below.to_string()), ("job", "s3://b/x/job".to_owned()));
}

#[test]
fn what_is_no_place_is_refused_with_what_to_write() {
    let cases = [
        ("s3://", "names no bucket"),
        ("s3:///x", "names no bucket"),
        ("s3://key:secret@b/x", "cannot be in a bucket's name"),
        ("s3://b/x//y", "a prefix that cannot"),
        ("s3://b/x/../y", "a prefix that cannot"),
        ("s3://b/x?versionId=1", "a prefix that cannot"),
        ("abfss://c@account.dfs.core.windows.net/x", "az://container/prefix"),
        ("hdfs://b/x", "s3://bucket/prefix"),
        ("", "--checkpoint-dir"),
    ];
    for (location, expected) in cases {
        let text = parse(location).expect_err(location).to_string();
        assert!(text.contains(expected), "{location}: {text}");
    }
}
