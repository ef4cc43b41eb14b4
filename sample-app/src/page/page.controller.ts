import { readFile } from 'node:fs/promises';
import { Controller, Get, Header, NotFoundException, Param, StreamableFile } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';

const PAGE = new URL('../../public/', import.meta.url);
/** The library's client: modules without dependencies, so a browser can load these files as they are. */
const CLIENT = new URL('.', import.meta.resolve('nestjs-idempotency/client'));

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";
/** Prevents the browser from guessing another content type. */
const NoSniffing = () => Header('X-Content-Type-Options', 'nosniff');
const JAVASCRIPT = 'text/javascript; charset=utf-8';

/** The page at `/`: sends payments, double clicks and retries, and shows the responses. */
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

  @Get('page.css')
  @NoSniffing()
  @Header('Content-Type', 'text/css; charset=utf-8')
  css(): Promise<string> {
    return readFile(new URL('page.css', PAGE), 'utf8');
  }

  @Get('page.js')
  @NoSniffing()
  @Header('Content-Type', JAVASCRIPT)
  javascript(): Promise<string> {
    return readFile(new URL('page.js', PAGE), 'utf8');
  }

  @Get('client/:file')
  @NoSniffing()
  async client(@Param('file') file: string): Promise<StreamableFile> {
    const module = /^[a-z-]+\.js$/.test(file) ? new URL(file, CLIENT) : undefined;
    const source = module && (await readFile(module).catch(() => undefined));
    if (source === undefined) throw new NotFoundException('Module not found');
    return new StreamableFile(source, { type: JAVASCRIPT });
  }
}
