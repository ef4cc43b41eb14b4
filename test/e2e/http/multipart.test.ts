import { Body, Controller, Post, UploadedFile, UseInterceptors } from '@nestjs/common';
import { FileInterceptor } from '@nestjs/platform-express';
import type { ExecutionContext } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Idempotent } from 'nestjs-idempotency';
import { expectProblem } from '../../support/http/expect-problem.js';
import { expectReplay } from '../../support/http/expect-replay.js';
import { InScenario, Scenario, type Sending } from '../../support/http/scenario.js';
import { startApp, type TestApp } from '../../support/http/start-app.js';
import { slowStore } from '../../support/slow-store.js';

interface Upload {
  readonly originalname: string;
  readonly buffer: Buffer;
}

/** What counts of an upload: the fields, and the file's name and bytes. */
function contentOfUpload({ body }: { readonly body: unknown }, context: ExecutionContext): unknown {
  const { file } = context.switchToHttp().getRequest<{ file: Upload }>();
  return [body, file.originalname, file.buffer.toString('base64')];
}

// Decorators apply from the bottom: the files are parsed before the layer sees the request.
@Controller()
class UploadsController {
  @Post('compared-by-default')
  @Idempotent()
  @UseInterceptors(FileInterceptor('file'))
  async byDefault(@InScenario() scenario: Scenario, @UploadedFile() file: Upload) {
    return { execution: await scenario.run(), got: file.buffer.toString() };
  }

  @Post('compared-by-members')
  @Idempotent({ fingerprint: { exclude: ['note'] } })
  @UseInterceptors(FileInterceptor('file'))
  async byMembers(@InScenario() scenario: Scenario, @UploadedFile() file: Upload) {
    return { execution: await scenario.run(), got: file.buffer.toString() };
  }

  @Post('compared-by-a-function')
  @Idempotent({ fingerprint: contentOfUpload })
  @UseInterceptors(FileInterceptor('file'))
  async byFunction(
    @InScenario() scenario: Scenario,
    @UploadedFile() file: Upload,
    @Body() { note }: { readonly note: string },
  ) {
    return { execution: await scenario.run(), got: file.buffer.toString(), note };
  }
}

function upload(content: string, note = 'a note', boundary = 'first-boundary'): Sending {
  const part = (disposition: string, body: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${body}\r\n`;
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: [
      part('name="note"', note),
      part('name="file"; filename="a.txt"', content),
      `--${boundary}--\r\n`,
    ].join(''),
  };
}

describe('C47 multipart uploads that Express parsed before the layer', () => {
  let app: TestApp;

  beforeAll(async () => {
    app = await startApp({
      platform: 'express',
      store: slowStore(),
      controllers: [UploadsController],
    });
  });

  afterAll(() => app.close());

  it.each(['/compared-by-default', '/compared-by-members'])(
    'are refused where their files would not be compared: %s',
    async (path) => {
      const scenario = app.scenario();
      expectProblem(await scenario.post(path, upload('content')), 'content-invalid');
      expectProblem(await scenario.post(path, upload('content')), 'content-invalid');
      expect(scenario.executions).toBe(0);
    },
  );

  describe('with a function as fingerprint', () => {
    const path = '/compared-by-a-function';

    it('are replayed, whatever boundary the client drew this time', async () => {
      const scenario = app.scenario();
      const first = await scenario.post(path, upload('content'));
      expect(first).toMatchObject({
        status: 201,
        json: { execution: 1, got: 'content', note: 'a note' },
      });
      const again = upload('content', 'a note', 'second-boundary');
      expectReplay(await scenario.post(path, again), first);
      expect(scenario.executions).toBe(1);
    });

    it.each([
      ['content', upload('another content')],
      ['field', upload('content', 'another note')],
    ])('are told apart by their %s', async (_, other) => {
      const scenario = app.scenario();
      await scenario.post(path, upload('content'));
      expectProblem(await scenario.post(path, other), 'key-reused');
      expect(scenario.executions).toBe(1);
    });
  });
});
