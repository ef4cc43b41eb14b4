import { readFile } from 'node:fs/promises';
import { Controller, Get, Header, NotFoundException, Param, StreamableFile } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';

const PAGE = new URL('../../public/', import.meta.url);
/** The library's client: modules without dependencies, so a browser can load these files as they are. */
const CLIENT = new URL('.', import.meta.resolve('nestjs-idempotency-client'));

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";
/** Prevents the browser from guessing another content type. */
const NoSniffing = () => Header('X-Content-Type-Options', 'nosniff');
const types = new Map<string | undefined, string>([
  ['css', 'text/css; charset=utf-8'],
  ['js', 'text/javascript; charset=utf-8'],
]);

/** The page at `/`: sends payments, duplicates and retries, and shows the responses. */
@Controller()
@ApiExcludeController()
export class PageController {
  @Get()
  @NoSniffing()
  @Header('Content-Type', 'text/html; charset=utf-8')
  @Header(
    'Content-Security-Policy',
    `${POLICY}; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  )
  html(): Promise<string> {
    return readFile(new URL('index.html', PAGE), 'utf8');
  }

  @Get('page/:file')
  @NoSniffing()
  asset(@Param('file') file: string): Promise<StreamableFile> {
    return send(PAGE, file);
  }

  @Get('client/:file')
  @NoSniffing()
  client(@Param('file') file: string): Promise<StreamableFile> {
    return send(CLIENT, file);
  }
}

async function send(folder: URL, file: string): Promise<StreamableFile> {
  const type = types.get(/^[a-z-]+\.(\w+)$/.exec(file)?.[1]);
  if (type === undefined) throw new NotFoundException('File not found');
  const text = await readFile(new URL(file, folder)).catch(() => undefined);
  if (text === undefined) throw new NotFoundException('File not found');
  return new StreamableFile(text, { type });
}
