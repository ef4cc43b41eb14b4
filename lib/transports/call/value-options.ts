import type { OutcomeCodec } from '../../core/record/outcome-codec.js';
import { fail } from '../../core/util/option-checks.js';

/** How the values of calls, messages and GraphQL fields are kept. */
export interface ValueOptions {
  /**
   * Writes values down and reads them again. Every caller gets a value as it was stored, the first one, too.
   * @defaultValue `jsonCodec()`; for messages and gateways, whose wire is JSON, `jsonCodec({ dates: 'text' })`
   */
  readonly codec?: OutcomeCodec;
}

/** @throws {@link IdempotencyOptionsError} for what is no codec. */
export function checkCodec(codec: OutcomeCodec): void {
  const { name, encode, decode } = codec as Partial<OutcomeCodec>;
  const isCodec =
    typeof name === 'string' &&
    name !== '' &&
    typeof encode === 'function' &&
    typeof decode === 'function';
  if (!isCodec) fail('codec', 'an OutcomeCodec, such as jsonCodec()', typeof codec);
}
