import { throwOptionError, within } from '../options/option-checks.js';
import { of, type Field } from '../options/option-schema.js';

/** Who changes records, as each entry of a journal says. */
export interface JournalWriter {
  /** The name of the application, as in the module option `service`. @defaultValue none: required */
  readonly service: string | undefined;
  /** The version of the application that runs, such as its release or commit. @defaultValue none: required */
  readonly version: string | undefined;
}

const WORD = /^[!-~]{1,120}$/;
const EXPECTED = 'a string of 1 to 120 printable ASCII characters without white space';
const isWord = (value: unknown) => typeof value === 'string' && WORD.test(value);

/** Resolved options have it, though it has no default: {@link checkWriter} sees to that. */
const REQUIRED = of(EXPECTED, isWord, { defaultText: 'none: required' }) as Field<string> & {
  readonly default: string;
};

/** The fields of every journal. */
export const WRITER = { service: REQUIRED, version: REQUIRED };

/** @throws {@link IdempotencyOptionsError} if a journal that is on does not say who writes it. @param owner - the store. */
export function checkWriter(owner: string, writer: Partial<JournalWriter>): void {
  within(owner, owner, () => {
    for (const name of ['service', 'version'] as const) {
      if (writer[name] === undefined) throwOptionError(`journal.${name}`, EXPECTED, undefined);
    }
  });
}
