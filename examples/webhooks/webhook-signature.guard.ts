import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  Inject,
  Injectable,
  UnauthorizedException,
  type CanActivate,
  type ExecutionContext,
  type RawBodyRequest,
} from '@nestjs/common';

export const WEBHOOK_SECRET = Symbol('WEBHOOK_SECRET');

/** How old a signature may be, in seconds. */
const TOLERANCE_S = 300;

/** Checks `Webhook-Signature: t=…,v1=…`, an HMAC over the time and the raw body, as Stripe's. */
@Injectable()
export class WebhookSignatureGuard implements CanActivate {
  constructor(@Inject(WEBHOOK_SECRET) private readonly secret: string) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context
      .switchToHttp()
      .getRequest<RawBodyRequest<{ headers: Record<string, string | undefined> }>>();
    const { t = '', v1 = '' } = Object.fromEntries(
      (request.headers['webhook-signature'] ?? '').split(',').map((part) => part.split('=')),
    ) as { t?: string; v1?: string };
    const expected = createHmac('sha256', this.secret)
      .update(`${t}.`)
      .update(request.rawBody ?? '')
      .digest();
    const given = Buffer.from(v1, 'hex');
    const isAuthentic = given.length === expected.length && timingSafeEqual(given, expected);
    const isRecent = Math.abs(Date.now() / 1000 - Number(t)) <= TOLERANCE_S;
    if (!isAuthentic || !isRecent) throw new UnauthorizedException('The signature is not valid');
    return true;
  }
}
