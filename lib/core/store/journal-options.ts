import { IdempotencyOptionsError } from '../errors/errors.js';
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

/**
 * Called when the store is opened.
 * @param service - of the application.
 * @throws {@link IdempotencyOptionsError} if the journal would say another one.
 */
export function checkService(
  owner: string,
  { service: written }: JournalWriter,
  service: string | undefined,
): void {
  if (service === undefined || service === written) return;
  throw new IdempotencyOptionsError(
    `${owner}: the option "journal.service" is "${String(written)}", and the module option "service" is "${service}": the journal would show changes of this application as those of another one. Give both the same name, and an application with another name a store of its own.`,
  );
}

/** @throws {@link IdempotencyOptionsError} if a journal that is on does not say who writes it. @param owner - the store. */
export function checkWriter(owner: string, writer: Partial<JournalWriter>): void {
  within(owner, owner, () => {
    for (const name of ['service', 'version'] as const) {
      if (writer[name] === undefined) throwOptionError(`journal.${name}`, EXPECTED, undefined);
    }
  });
}
