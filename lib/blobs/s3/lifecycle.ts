import type { LifecycleRule } from '@aws-sdk/client-s3';
import { BLOB_CLASSES } from '../../core/payload/blob-store.js';
import type { StoreWarning } from '../../core/record/store-warning.js';

/** A lifecycle rule counts from the day after the upload, and the record from its completion. */
const SPARE_DAYS = 1;

const REMEDY = 'Apply the rules in docs/reference/blob-stores.md, with your prefix.';

/** What the bucket's rules do to blobs that are still needed, and leave for ever. */
export function lifecycleWarnings(
  rules: readonly LifecycleRule[],
  bucket: string,
  prefix: string,
): StoreWarning[] {
  const warnings: StoreWarning[] = [];
  const missing: string[] = [];
  const short: string[] = [];
  let isAborting = true;
  for (const days of BLOB_CLASSES) {
    const place = `${prefix}d${String(days)}/`;
    const applied = rules.filter((rule) => rule.Status === 'Enabled' && isFor(rule, place));
    const expiries = applied.flatMap(({ Expiration }) => Expiration?.Days ?? []);
    if (expiries.length === 0) missing.push(place);
    else if (Math.min(...expiries) < days + SPARE_DAYS) short.push(place);
    isAborting &&= applied.some(
      ({ AbortIncompleteMultipartUpload: abort }) => abort?.DaysAfterInitiation !== undefined,
    );
  }
  if (missing.length > 0) {
    warnings.push({
      code: 'blobs_lifecycle_missing',
      message: `The bucket ${bucket} has no lifecycle rule that expires ${missing.join(', ')}: large outcomes stay for ever. ${REMEDY}`,
    });
  }
  if (short.length > 0) {
    warnings.push({
      code: 'blobs_lifecycle_short',
      message: `The bucket ${bucket} has a lifecycle rule that expires ${short.join(', ')} too early: retries then get "response not kept". A class of N days needs ${SPARE_DAYS} more. ${REMEDY}`,
    });
  }
  if (!isAborting) {
    warnings.push({
      code: 'blobs_uploads_stay',
      message: `The bucket ${bucket} has no lifecycle rule that ends incomplete multipart uploads below ${prefix}: what a killed process has uploaded stays, is not listed, and costs. ${REMEDY}`,
    });
  }
  return warnings;
}

/** Whether it is for all objects below the prefix. One with tags or sizes is not. */
function isFor({ Filter, ...rule }: LifecycleRule, prefix: string): boolean {
  if (Filter?.And !== undefined || Filter?.Tag !== undefined) return false;
  if (Filter?.ObjectSizeGreaterThan !== undefined || Filter?.ObjectSizeLessThan !== undefined) {
    return false;
  }
  // The older form has the prefix beside the filter.
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- buckets that were configured long ago have it
  return prefix.startsWith(Filter?.Prefix ?? rule.Prefix ?? '');
}
