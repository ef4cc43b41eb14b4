import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import SwaggerParser from '@apidevtools/swagger-parser';

// The app reads its settings when it is imported.
process.env.STORE = 'memory';
const { createApp } = await import('../../../sample-app/src/create-app.js');

describe.each(['express', 'fastify'] as const)(
  'the documentation of the sample app on %s',
  (on) => {
    let app: INestApplication;
    let url: string;
    let document: any;

    beforeAll(async () => {
      app = await createApp(on);
      await app.listen(0, '127.0.0.1');
      url = await app.getUrl();
      document = await (await fetch(`${url}/docs-json`)).json();
    });
    afterAll(() => app.close());

    it('is a page at /docs, which loads its scripts from the app itself', async () => {
      const page = await fetch(`${url}/docs`);
      expect(page.headers.get('content-type')).toContain('text/html');
      const html = await page.text();
      const scripts = [...html.matchAll(/<script src='?"?([^'" >]+)/g)].map(
        ([, source]) => source!,
      );
      expect(scripts.length).toBeGreaterThan(1);
      for (const source of scripts) {
        const script = await fetch(new URL(source, `${url}/docs`));
        const { byteLength } = await script.arrayBuffer();
        expect([source, script.status, byteLength > 0]).toEqual([source, 200, true]);
      }
    });

    it('is valid according to a validator', async () => {
      await expect(SwaggerParser.validate(structuredClone(document))).resolves.toBeDefined();
    });

    it.each(['/payments', '/payments/{id}/refunds'])(
      'describes POST %s completely',
      async (path) => {
        const { post } = document.paths[path];
        const key = post.parameters.find(({ in: place }: any) => place === 'header');
        expect(key).toMatchObject({
          name: 'Idempotency-Key',
          required: true,
          description: expect.stringContaining('For at least 24 hours'),
          schema: { type: 'string', maxLength: 255 },
        });
        expect(Object.keys(post.responses)).toEqual(['201', '400', '409', '422', '503']);
        expect(post.responses[201].headers).toHaveProperty('Idempotent-Replayed');
        for (const status of [400, 409, 422, 503]) {
          const { schema } = post.responses[status].content['application/problem+json'];
          expect(schema).toEqual({ $ref: '#/components/schemas/IdempotencyProblemDocument' });
        }
      },
    );

    it('does not mention keys for reading a payment', () => {
      expect(JSON.stringify(document.paths['/payments/{id}'].get)).not.toMatch(/idempoten/i);
    });
  },
);
