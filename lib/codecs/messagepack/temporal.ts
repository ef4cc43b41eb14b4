/** What is used of a class of `Temporal`, which Node 26 has, and others by a polyfill. */
interface TemporalClass {
  readonly prototype: object;
  new (...parts: readonly unknown[]): object;
  from(text: string): object;
}

const DURATION = 'Temporal.Duration';

const ZONED = 'Temporal.ZonedDateTime';

/** Its text would carry over what exceeds a second. */
const DURATION_FIELDS = [
  ...['years', 'months', 'weeks', 'days', 'hours', 'minutes', 'seconds'],
  ...['milliseconds', 'microseconds', 'nanoseconds'],
];

/** Its text has the offset, which another version of the time zone's rules may reject. */
const ZONED_FIELDS = ['epochNanoseconds', 'timeZoneId', 'calendarId'];

/** @param tag - as of `Object.prototype.toString`. @returns `undefined` where there is no global one. */
export function temporalClass(tag: string): TemporalClass | undefined {
  const { Temporal } = globalThis as { readonly Temporal?: Readonly<Record<string, unknown>> };
  const type = Temporal?.[tag.replace('Temporal.', '')];
  return typeof type === 'function' ? (type as unknown as TemporalClass) : undefined;
}

/** What {@link temporalOf} makes an equal value of. */
export function partsOf(value: object, tag: string): readonly unknown[] {
  const fields = tag === DURATION ? DURATION_FIELDS : tag === ZONED ? ZONED_FIELDS : undefined;
  if (fields === undefined) return [(value as { toString(): string }).toString()];
  return fields.map((field) => (value as Readonly<Record<string, unknown>>)[field]);
}

/** @throws TypeError where there is no global `Temporal`. */
export function temporalOf(tag: string, parts: readonly unknown[]): object {
  const type = temporalClass(tag);
  if (type === undefined) {
    throw new TypeError(
      `The stored value has a ${tag}, which this process does not have. Run Node 26, or install a polyfill as globalThis.Temporal.`,
    );
  }
  return tag === DURATION || tag === ZONED ? new type(...parts) : type.from(parts[0] as string);
}
