import { Readable } from 'node:stream';
import {
  Controller,
  Header,
  HttpCode,
  Param,
  ParseIntPipe,
  Post,
  Redirect,
  Res,
  StreamableFile,
} from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import type { Reply } from '../../../support/http/reply.js';
import { InScenario, Scenario } from '../scenario.js';

const octets = (length: number) =>
  Buffer.from(Array.from({ length }, (_, index) => (index * 7) % 256));

/** What belongs to one exchange, even if a handler sets it. */
const OF_THE_EXCHANGE = {
  'X-Request-Id': 'of the first',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'Server-Timing': 'db;dur=53',
  'RateLimit-Limit': '10',
  'RateLimit-Remaining': '9',
  'Access-Control-Allow-Origin': 'https://first.example.com',
  Age: '7',
  Via: '1.1 first',
  Server: 'first',
  'WWW-Authenticate': 'Bearer',
  Authorization: 'Bearer of-the-first',
  'Authentication-Info': 'nextnonce="of-the-first"',
  'X-Auth-Token': 'of-the-first',
  'X-Amzn-Trace-Id': 'Root=1-of-the-first',
};

/** Routes that differ in their response. */
@Controller()
export class ResponsesController {
  @Post('with-headers')
  @Idempotent()
  async withHeaders(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Content-Type', 'application/vnd.api+json');
    reply.header('Content-Language', 'de');
    reply.header('Location', '/things/7?a=b%20c');
    reply.header('ETag', '"version 7"');
    reply.header('X-Own', 'kept as it is');
    return { execution: await scenario.execute() };
  }

  @Post('with-chosen-headers')
  @Idempotent({ http: { replayHeaders: ['ETag', 'Content-Type'] } })
  async withChosen(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('ETag', '"version 7"').header('X-Own', 'sent once');
    return { execution: await scenario.execute() };
  }

  @Post('with-links')
  @Idempotent()
  async withLinks(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Link', ['</a>; rel="next"', '</b>; rel="prev", </c>; rel="up"']);
    return { execution: await scenario.execute() };
  }

  @Post('with-old-date')
  @Idempotent()
  async withOldDate(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Date', 'Tue, 15 Nov 1994 12:45:26 GMT');
    return { execution: await scenario.execute() };
  }

  @Post('hop-by-hop')
  @Idempotent()
  async hopByHop(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Keep-Alive', 'timeout=99');
    reply.header('Proxy-Connection', 'keep-alive');
    reply.header('TE', 'trailers');
    reply.header('Upgrade', 'h2c');
    reply.header('Trailer', 'X-Checksum');
    reply.header('Transfer-Encoding', 'chunked');
    return new StreamableFile(Readable.from([`execution ${await scenario.execute()}`]));
  }

  @Post('with-cookie')
  @Idempotent()
  async withCookie(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('Set-Cookie', ['session=1', 'theme=dark']);
    return { execution: await scenario.execute() };
  }

  @Post('of-the-exchange')
  @Idempotent()
  async ofTheExchange(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    for (const [name, value] of Object.entries(OF_THE_EXCHANGE)) reply.header(name, value);
    return { execution: await scenario.execute() };
  }

  @Post('no-content')
  @HttpCode(204)
  @Header('X-Own', 'kept')
  @Idempotent()
  async noContent(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('ETag', `"${await scenario.execute()}"`);
  }

  @Post('octets/:length')
  @Idempotent()
  async binary(@InScenario() scenario: Scenario, @Param('length', ParseIntPipe) length: number) {
    const disposition = `attachment; filename="${await scenario.execute()}.pdf"`;
    return new StreamableFile(octets(length), { type: 'application/pdf', disposition });
  }

  @Post('chunked')
  @Idempotent()
  async chunked(@InScenario() scenario: Scenario) {
    const execution = await scenario.execute();
    const chunks = Array.from({ length: 20 }, (_, index) => `${execution}:${index};`);
    return new StreamableFile(Readable.from(chunks), { type: 'text/csv' });
  }

  @Post('too-large')
  @Idempotent({ outcome: { maxBytes: 1_024 } })
  async tooLarge(@InScenario() scenario: Scenario) {
    return `${await scenario.execute()}${'x'.repeat(2_000)}`;
  }

  @Post('streams-too-large/1024')
  @Idempotent({ outcome: { maxBytes: 1_024 } })
  async streamTooLarge(@InScenario() scenario: Scenario) {
    await scenario.execute();
    return new StreamableFile(Readable.from([octets(1_000), octets(1_000), octets(1_000)]));
  }

  @Post('streams-too-large/default')
  @Idempotent()
  async streamFarTooLarge(@InScenario() scenario: Scenario) {
    await scenario.execute();
    return new StreamableFile(Readable.from(Array.from({ length: 80 }, () => octets(65_536))));
  }

  @Post('fails-too-large/:as')
  @Idempotent({ outcome: { maxBytes: 1_024 } })
  async failTooLarge(
    @InScenario() scenario: Scenario,
    @Param('as') as: string,
    @Res({ passthrough: true }) reply: Reply,
  ) {
    const execution = await scenario.execute();
    if (execution === 1) reply.status(503);
    const text = `${execution}${'x'.repeat(2_000)}`;
    return as === 'text' ? text : new StreamableFile(Readable.from([text, text]));
  }

  @Post('see-other')
  @Redirect('/things/7', 303)
  @Idempotent()
  async seeOther(@InScenario() scenario: Scenario) {
    await scenario.execute();
  }

  @Post('marked-otherwise')
  @Idempotent({ http: { replayHeader: 'X-Replayed' } })
  async markedOtherwise(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute() };
  }

  @Post('marks-itself')
  @Header('Idempotent-Replayed', 'true')
  @Idempotent()
  async marksItself(@InScenario() scenario: Scenario, @Res({ passthrough: true }) reply: Reply) {
    reply.header('IDEMPOTENT-REPLAYED', 'true');
    return { execution: await scenario.execute() };
  }

  @Post('secret')
  @Idempotent({ outcome: { storeBody: false } })
  async secret(@InScenario() scenario: Scenario) {
    return { execution: await scenario.execute(), secret: 'for one pair of eyes' };
  }
}
