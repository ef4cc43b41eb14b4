import { describe, expect, it } from '@jest/globals';
import { ContentNotComparableError } from '../../support/internals/core.js';
import { formContent, type ParsedRequest } from '../../support/internals/http.js';

/** The fields as multer leaves them, where Nest does not close the gaps in its arrays. */
function fieldsOf(
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
    const content = fieldsOf(fields, () => (selections += 1));
    await expect(content).rejects.toBeInstanceOf(ContentNotComparableError);
    expect(selections).toBe(0);
  });
});

describe('the arrays of a form', () => {
  it('may have a few holes, which count', async () => {
    const contents = await Promise.all([
      fieldsOf({ rows: arrayWith({ 2: 'a', 9: 'b' }) }),
      fieldsOf({ rows: arrayWith({ 2: 'a', 8: 'b' }) }),
      fieldsOf({ rows: ['a', 'b'] }),
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
    await expect(fieldsOf(fields)).rejects.toBeInstanceOf(ContentNotComparableError);
  });

  it('may be as long as they have values', async () => {
    const rows = Array.from({ length: 150_000 }, (_, index) => String(index));
    expect((await fieldsOf({ rows })).includes('"149999"')).toBe(true);
  });
});

const path = import.meta.filename;
const parsed = { path, name: 'a.txt', type: 'text/plain', size: 7 };

function contentOf(request: ParsedRequest, isMulterBound = false): Promise<string> {
  return formContent(request, (members) => members, isMulterBound);
}

describe('a form that a parser other than multer has parsed', () => {
  it.each<[string, ParsedRequest]>([
    ['express-formidable', { files: { file: parsed } }],
    ['express-formidable, of several files', { files: { file: [parsed, parsed] } }],
    [
      'connect-multiparty',
      {
        body: { note: 'a note' },
        files: { file: { ...parsed, fieldName: 'file', originalFilename: 'a.txt' } },
      },
    ],
    [
      'express-fileupload',
      { body: { note: 'a note' }, files: { file: { name: 'a.txt', data: Buffer.from('x') } } },
    ],
    ['one that names the field alone', { body: {}, files: [{ ...parsed, fieldname: 'file' }] }],
    ['one that names the file alone', { body: {}, file: { ...parsed, originalname: 'a.txt' } }],
    [
      'one that leaves no fields',
      { files: [{ ...parsed, fieldname: 'file', originalname: 'a.txt' }] },
    ],
    ['one that found no files', { body: { note: 'a note' }, files: {} }],
  ])('is rejected: %s', async (_, request) => {
    await expect(contentOf(request)).rejects.toBeInstanceOf(ContentNotComparableError);
  });
});

describe('a form without files', () => {
  class OrderDto {
    note = 'a note';
  }

  it('is recognized as parsed by its body, by its empty list, or by an earlier interceptor', async () => {
    const bare = Object.assign(Object.create(null) as object, { note: 'a note' });
    const contents = await Promise.all([
      contentOf({ body: bare }),
      contentOf({ body: new OrderDto(), files: [] }),
      contentOf({ body: new OrderDto() }, true),
    ]);
    expect(new Set(contents)).toEqual(new Set(['[{"note":"a note"},{}]']));
  });

  it('is not recognized as parsed where there is only an object', async () => {
    const content = contentOf({ body: new OrderDto() });
    await expect(content).rejects.toBeInstanceOf(ContentNotComparableError);
  });

  it('is not recognized as parsed where the body is not an object', async () => {
    for (const body of [undefined, null, 'text']) {
      await expect(contentOf({ body }, true)).rejects.toBeInstanceOf(ContentNotComparableError);
    }
  });
});

describe('a form on Fastify, by keys and values', () => {
  const contentOfBody = (body: object) => contentOf({ body, isMultipart: () => true });

  it('distinguishes a value from a list of one, values and files alike', async () => {
    const file = Buffer.from('content');
    const bodies = [{ a: 5 }, { a: [5] }, { a: [[5]] }, { a: null }, { a: [null] }];
    const contents = await Promise.all([...bodies, { a: file }, { a: [file] }].map(contentOfBody));
    expect(new Set(contents).size).toBe(7);
  });
});
