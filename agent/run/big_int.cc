#include "agent/run/big_int.h"

#include <algorithm>
#include <bit>

#include "common/check.h"

namespace cairn::agent {

void BigInt::Trim(Limbs* limbs) {
  while (!limbs->empty() && limbs->back() == 0) limbs->pop_back();
}

void BigInt::Normalize() {
  Trim(&limbs_);
  if (limbs_.empty()) negative_ = false;
}

BigInt::BigInt(int64_t value) : negative_(value < 0) {
  uint64_t magnitude = negative_ ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) limbs_.push_back(static_cast<uint32_t>(magnitude));
}

BigInt BigInt::FromDigits(std::string_view digits) {
  BigInt out;
  for (const char c : digits) {
    uint64_t carry = static_cast<uint64_t>(c - '0');
    for (uint32_t& limb : out.limbs_) {
      carry += uint64_t{limb} * 10;
      limb = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) out.limbs_.push_back(static_cast<uint32_t>(carry));
  }
  return out;
}

size_t BigInt::bits() const {
  return limbs_.empty() ? 0
                        : 32 * limbs_.size() - static_cast<size_t>(std::countl_zero(limbs_.back()));
}

bool BigInt::ToInt64(int64_t* out) const {
  if (bits() > 63) return false;  // leaves out the least int64, which nobody needs here
  uint64_t magnitude = 0;
  for (size_t i = limbs_.size(); i-- > 0;) magnitude = magnitude << 32 | limbs_[i];
  *out = negative_ ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
  return true;
}

std::string BigInt::ToString() const {
  if (is_zero()) return "0";
  std::string out;
  Limbs rest = limbs_;
  while (!rest.empty()) {
    uint32_t part = DivSmall(&rest, 1'000'000'000);
    for (int i = 0; i < 9 && (part != 0 || !rest.empty()); ++i, part /= 10) {
      out += static_cast<char>('0' + part % 10);
    }
  }
  if (negative_) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

BigInt BigInt::operator-() const {
  BigInt out = *this;
  if (!is_zero()) out.negative_ = !negative_;
  return out;
}

int BigInt::CompareMagnitude(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

BigInt::Limbs BigInt::AddMagnitude(const Limbs& a, const Limbs& b) {
  Limbs out;
  uint64_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) || carry != 0; ++i) {
    carry += (i < a.size() ? a[i] : 0);
    carry += (i < b.size() ? b[i] : 0);
    out.push_back(static_cast<uint32_t>(carry));
    carry >>= 32;
  }
  return out;
}

BigInt::Limbs BigInt::SubMagnitude(const Limbs& a, const Limbs& b) {
  Limbs out = a;
  int64_t borrow = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t digit = int64_t{out[i]} - (i < b.size() ? b[i] : 0) - borrow;
    borrow = digit < 0;
    if (borrow != 0) digit += int64_t{1} << 32;
    out[i] = static_cast<uint32_t>(digit);
  }
  CAIRN_DCHECK(borrow == 0);
  return out;
}

BigInt operator+(const BigInt& a, const BigInt& b) {
  BigInt out;
  if (a.negative_ == b.negative_) {
    out.limbs_ = BigInt::AddMagnitude(a.limbs_, b.limbs_);
    out.negative_ = a.negative_;
  } else if (BigInt::CompareMagnitude(a.limbs_, b.limbs_) >= 0) {
    out.limbs_ = BigInt::SubMagnitude(a.limbs_, b.limbs_);
    out.negative_ = a.negative_;
  } else {
    out.limbs_ = BigInt::SubMagnitude(b.limbs_, a.limbs_);
    out.negative_ = b.negative_;
  }
  out.Normalize();
  return out;
}

BigInt operator*(const BigInt& a, const BigInt& b) {
  BigInt out;
  out.limbs_.assign(a.limbs_.size() + b.limbs_.size(), 0);
  for (size_t i = 0; i < a.limbs_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b.limbs_.size() || carry != 0; ++j) {
      carry += out.limbs_[i + j];
      if (j < b.limbs_.size()) carry += uint64_t{a.limbs_[i]} * b.limbs_[j];
      out.limbs_[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  out.negative_ = a.negative_ != b.negative_;
  out.Normalize();
  return out;
}

uint32_t BigInt::DivSmall(Limbs* a, uint32_t divisor) {
  uint64_t remainder = 0;
  for (size_t i = a->size(); i-- > 0;) {
    remainder = remainder << 32 | (*a)[i];
    (*a)[i] = static_cast<uint32_t>(remainder / divisor);
    remainder %= divisor;
  }
  Trim(a);
  return static_cast<uint32_t>(remainder);
}

// Knuth, The Art of Computer Programming, volume 2, algorithm D.
void BigInt::DivMod(const BigInt& a, const BigInt& b, BigInt* quotient, BigInt* remainder) {
  CAIRN_CHECK(!b.is_zero());
  BigInt q, r;
  if (CompareMagnitude(a.limbs_, b.limbs_) < 0) {
    r = a.Abs();
  } else if (b.limbs_.size() == 1) {
    q.limbs_ = a.limbs_;
    r = BigInt(int64_t{DivSmall(&q.limbs_, b.limbs_[0])});
  } else {
    const int shift = std::countl_zero(b.limbs_.back());
    const auto shifted = [shift](const Limbs& in) {
      Limbs out(in.size() + 1, 0);
      for (size_t i = 0; i < in.size(); ++i) {
        const uint64_t wide = uint64_t{in[i]} << shift;
        out[i] |= static_cast<uint32_t>(wide);
        out[i + 1] = static_cast<uint32_t>(wide >> 32);
      }
      return out;
    };
    Limbs u = shifted(a.limbs_);
    Limbs v = shifted(b.limbs_);
    Trim(&v);
    const size_t n = v.size();
    q.limbs_.assign(u.size() - n, 0);
    for (size_t j = u.size() - n; j-- > 0;) {
      const uint64_t top = uint64_t{u[j + n]} << 32 | u[j + n - 1];
      uint64_t digit = top / v[n - 1];
      uint64_t rest = top % v[n - 1];
      while (digit >> 32 != 0 || digit * v[n - 2] > (rest << 32 | u[j + n - 2])) {
        --digit;
        rest += v[n - 1];
        if (rest >> 32 != 0) break;
      }
      int64_t borrow = 0;
      uint64_t carry = 0;
      for (size_t i = 0; i < n; ++i) {
        carry += digit * v[i];
        const int64_t t = int64_t{u[i + j]} - borrow - static_cast<int64_t>(carry & 0xFFFFFFFF);
        u[i + j] = static_cast<uint32_t>(t);
        borrow = t < 0;
        carry >>= 32;
      }
      const int64_t t = int64_t{u[j + n]} - borrow - static_cast<int64_t>(carry);
      u[j + n] = static_cast<uint32_t>(t);
      if (t < 0) {  // one too many: add back
        --digit;
        uint64_t sum = 0;
        for (size_t i = 0; i < n; ++i) {
          sum += uint64_t{u[i + j]} + v[i];
          u[i + j] = static_cast<uint32_t>(sum);
          sum >>= 32;
        }
        u[j + n] += static_cast<uint32_t>(sum);
      }
      q.limbs_[j] = static_cast<uint32_t>(digit);
    }
    r.limbs_.assign(n, 0);
    for (size_t i = 0; i < n; ++i) {
      r.limbs_[i] = static_cast<uint32_t>((uint64_t{u[i + 1]} << 32 | u[i]) >> shift);
    }
  }
  q.negative_ = a.negative_ != b.negative_;
  q.Normalize();
  r.negative_ = a.negative_;
  r.Normalize();
  *quotient = std::move(q);
  *remainder = std::move(r);
}

BigInt BigInt::Gcd(BigInt a, BigInt b) {
  a = a.Abs();
  b = b.Abs();
  BigInt quotient, remainder;
  while (!b.is_zero()) {
    DivMod(a, b, &quotient, &remainder);
    a = std::move(b);
    b = std::move(remainder);
  }
  return a;
}

BigInt BigInt::Pow(const BigInt& base, uint32_t exponent) {
  BigInt out(1), square = base;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) out = out * square;
    if (exponent > 1) square = square * square;
  }
  return out;
}

bool operator<(const BigInt& a, const BigInt& b) {
  if (a.negative_ != b.negative_) return a.negative_;
  const int order = BigInt::CompareMagnitude(a.limbs_, b.limbs_);
  return a.negative_ ? order > 0 : order < 0;
}

}  // namespace cairn::agent
