import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-idempotency/memory';
import { expectProblem, expectReplay } from '../../test/support/http/expectations.js';
import { startApp, type TestApp } from '../../test/support/http/start-app.js';
import { changed, form, type Part } from '../../test/support/http/wire/form.js';
import { useServer } from '../../test/support/servers/use-server.js';
import { Album } from './album.js';
import { FormsController } from './forms.controller.js';
import { parseForms } from './parse-forms.js';
import { PhotosController } from './photos.controller.js';

const parts: readonly Part[] = [
  { name: 'title', value: 'Sunset' },
  { name: 'photo', value: 'bytes', filename: 'a.jpg', type: 'image/jpeg' },
];
const renamed = changed(parts, 'photo', { filename: 'b.jpg' });
const repainted = changed(parts, 'photo', { value: 'Bytes' });
const retitled = changed(parts, 'title', { value: 'Sunrise' });

const express = useServer(() =>
  startApp({
    platform: 'express',
    controllers: [PhotosController],
    providers: [Album],
    store: memoryStore(),
  }),
);
const fastify = useServer(() =>
  startApp({
    platform: 'fastify',
    controllers: [FormsController],
    providers: [Album],
    store: memoryStore(),
    configure: (app) => parseForms(app as NestFastifyApplication),
  }),
);

describe.each([
  ['in memory', express, '/photos', [retitled, repainted, renamed], []],
  ['in a bucket', express, '/photos/bucket', [retitled, repainted], [renamed]],
  ['on Fastify', fastify, '/photos', [retitled, repainted, renamed], []],
  [
    'without what the client changes',
    fastify,
    '/photos/parts',
    [retitled, repainted],
    [renamed, [...parts, { name: 'sentAt', value: 'now' }]],
  ],
] satisfies [string, TestApp, string, (readonly Part[])[], (readonly Part[])[]][])(
  'A photo %s',
  (_, app, path, others, retries) => {
    const photos = () => app.nest.get(Album).photos;
    beforeEach(() => void photos().splice(0));

    it('is added once, whatever the boundary of a retry', async () => {
      const scenario = app.scenario();
      const first = await scenario.post(path, form(...parts));
      expect(first.status).toBe(201);
      for (const retry of [parts, ...retries]) {
        expectReplay(await scenario.post(path, form(...retry)), first);
      }
      expect(photos()).toHaveLength(1);
    });

    it('is another request with other parts', async () => {
      const scenario = app.scenario();
      await scenario.post(path, form(...parts));
      for (const other of others) {
        expectProblem(await scenario.post(path, form(...other)), 'key-reused');
      }
      expect(photos()).toHaveLength(1);
    });
  },
);
