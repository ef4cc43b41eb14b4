import { describe, expect, it } from '@jest/globals';
import { ContentNotComparableError } from '../../support/internals/core.js';
import { formContent } from '../../support/internals/http.js';

/** The fields as multer leaves them, where Nest does not close the gaps in its arrays. */
function contentOf(
  fields: object,
  select = (members: unknown): unknown => members,
): Promise<string> {
  return formContent({ body: Object.assign(Object.create(null), fields) }, select, false);
}

function arrayWith(values: Record<string, string>): unknown[] {
  return Object.assign([], values);
}

describe('the fields of a form', () => {
  it('are rejected when circular, before any selection loops', async () => {
    const fields = { note: 'a note', parts: {} };
    fields.parts = { fields, others: [fields, fields] };
    let selections = 0;
    const content = contentOf(fields, () => (selections += 1));
    await expect(content).rejects.toBeInstanceOf(ContentNotComparableError);
    expect(selections).toBe(0);
  });
});

describe('the arrays of a form', () => {
  it('may have a few holes, which count', async () => {
    const contents = await Promise.all([
      contentOf({ rows: arrayWith({ 2: 'a', 9: 'b' }) }),
      contentOf({ rows: arrayWith({ 2: 'a', 8: 'b' }) }),
      contentOf({ rows: ['a', 'b'] }),
    ]);
    expect(new Set(contents).size).toBe(3);
  });

  it.each([
    ['one that ends far beyond its values', { rows: arrayWith({ 4_294_967_294: 'a' }) }],
    ['one inside another', { rows: [{ cells: arrayWith({ 20_000: 'a' }) }] }],
    ['many small ones', { rows: Array.from({ length: 20 }, () => arrayWith({ 999: 'a' })) }],
    ['a value beyond the greatest index', { rows: arrayWith({ 0: 'a', 99_999_999_999: 'b' }) }],
    ['no value but that one', { rows: arrayWith({ 99_999_999_999: 'b' }) }],
  ])('are rejected with more: %s', async (_, fields) => {
    await expect(contentOf(fields)).rejects.toBeInstanceOf(ContentNotComparableError);
  });

  it('may be as long as they have values', async () => {
    const rows = Array.from({ length: 150_000 }, (_, index) => String(index));
    expect((await contentOf({ rows })).includes('"149999"')).toBe(true);
  });
});
