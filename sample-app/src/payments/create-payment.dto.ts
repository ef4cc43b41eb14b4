import {
  IsInt,
  IsISO4217CurrencyCode,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  Min,
} from 'class-validator';

export class CreatePaymentDto {
  /** In minor units: 4999 is 49.99 EUR. */
  @IsInt()
  @Min(1)
  @Max(99_999_999)
  amount!: number;

  @IsISO4217CurrencyCode()
  currency!: string;

  @IsOptional()
  @IsString()
  @MaxLength(200)
  description?: string;
}
