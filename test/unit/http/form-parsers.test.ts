import { describe, expect, it } from '@jest/globals';
import { ContentNotComparableError } from '../../support/internals/core.js';
import { formContent, type ParsedRequest } from '../../support/internals/http.js';

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
