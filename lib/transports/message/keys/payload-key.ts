import {
  canonicalJson,
  checkDepth,
  checkHoles,
  containersIn,
} from '../../../core/record/canonical-json.js';
import { selectMembers } from '../../../core/record/content-selection.js';
import { digest } from '../../../core/record/fingerprint.js';
import { checkNames, fail } from '../../../core/util/option-checks.js';
import { patternOf } from '../rpc-context.js';
import { checkIsJson, checkIsPlain, saysSomething } from './json-content.js';
import type { MessageKey } from './message-key.js';
import { payloadOf } from './payload-of.js';
import { pathNames } from './payload-path.js';

/** Which members of a payload make its key, by dotted paths (`order.id`); arrays are passed through. */
export interface PayloadSelection {
  /**
   * Only these members, and what is below them.
   * @defaultValue all
   */
  readonly include?: readonly string[];
  /**
   * Not these: what a redelivery or a retry changes (a time of sending, a trace id).
   * @defaultValue none
   */
  readonly exclude?: readonly string[];
}

const NAMES: ReadonlySet<string> = new Set(['include', 'exclude']);

/**
 * The key is derived from the payload: a digest of its canonical JSON, or of the members that are chosen. Two payloads
 * have the same key exactly where these members are equal: the order of members does not count; the order of items in an
 * array does, and so does whether a member is absent or `null`, a text or a number, an array or what is in it. A payload
 * of bytes or text counts as a whole, and has no members to include. Under another pattern (another event, topic or
 * subject) an equal payload is another message.
 *
 * There is no key where nothing is left that could tell one payload from another: the chosen members are not there, or
 * there is nothing in them but `null`, empty texts, empty arrays and empty objects.
 *
 * The function that is returned throws {@link ContentNotComparableError} where a chosen member holds something that JSON
 * cannot express without loss (a date, bytes, a `Map`), or the payload is nested more than 1,000 levels deep.
 *
 * @throws {@link IdempotencyOptionsError} for a name that is no option, and for paths that are none.
 */
export function payloadKey(selection: PayloadSelection = {}): MessageKey {
  checkNames('payloadKey()', selection, NAMES);
  const include = checkedPaths('payloadKey.include', selection.include);
  const exclude = checkedPaths('payloadKey.exclude', selection.exclude) ?? [];
  if (include?.length === 0) {
    fail('payloadKey.include', 'an array of at least one dotted path', include);
  }
  return (context) => {
    const payload = payloadOf(context);
    if (payload === undefined) return undefined;
    if (payload instanceof Uint8Array) {
      return include !== undefined || payload.length === 0
        ? undefined
        : digest([patternOf(context), payload]);
    }
    checkIsPlain(payload);
    checkDepth(payload);
    checkHoles(containersIn(payload));
    const content = selectMembers(payload, include, exclude);
    if (content === undefined) return undefined;
    checkIsJson(content);
    return saysSomething(content)
      ? digest([patternOf(context), canonicalJson(content)])
      : undefined;
  };
}

function checkedPaths(option: string, paths: unknown): readonly string[] | undefined {
  if (paths === undefined) return undefined;
  if (!Array.isArray(paths)) fail(option, 'an array of dotted paths', paths);
  // A copy: what becomes of the caller's array later does not count.
  return paths.map((path: unknown) => pathNames(option, path).join('.'));
}
