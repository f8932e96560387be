"""The words of `{{convert|5|km|mi}}`: number and unit as given, without the conversion."""

import re

from data_prep.wikitext.tables import entries, word_list

_NUMBER = re.compile(r"[-+−]?[0-9][0-9,. ]*(?:[+/⁄][0-9/⁄]+)?(?:e[-+−]?[0-9]+)?\Z", re.IGNORECASE)

# What may stand between two numbers, as the template knows it, and how it is shown.
_BETWEEN = {
    "-": "–", "–": "–", "to": " to ", "to(-)": " to ", "to about": " to about ", "and": " and ",
    "and(-)": " and ", "or": " or ", "by": " by ", "x": " × ", "×": " × ", "*": " × ", "xx": " × ",
    "+/-": " ± ", "±": " ± ", "&": " and ", ",": ", ", "to-": " to ", "by(x)": " by ",
    "bis": " bis ", "à": " à ", "et": " et ",
}  # fmt: skip

_UNITS = entries(
    "km2=km²,m2=m²,cm2=cm²,mm2=mm²,sqkm=km²,sqm=m²,sqmi=sq mi,mi2=sq mi,sqft=sq ft,ft2=sq ft,"
    "sqyd=sq yd,sqin=sq in,in2=sq in,m3=m³,cm3=cm³,km3=km³,mm3=mm³,cuft=cu ft,cuyd=cu yd,"
    "cuin=cu in,cumi=cu mi,cc=cc,C=°C,F=°F,K=K,°C=°C,°F=°F,C-change=°C,F-change=°F,acre=acres,"
    "acres=acres,mile=miles,miles=miles,foot=feet,feet=feet,inch=inches,yard=yards,"
    "kilometre=kilometres,metre=metres,hectare=hectares,ton=tons,tonne=tonnes,t=tonnes,lb=lb,"
    "lbs=lb,oz=oz,st=st,kn=knots,nmi=nautical miles,kph=km/h,km/h=km/h,mph=mph,m/s=m/s,ft/s=ft/s,"
    "ha=ha,hp=hp,bhp=bhp,PS=PS,kW=kW,MW=MW,GW=GW,kWh=kWh,impgal=imp gal,USgal=US gal,usgal=US gal,"
    "L=litres,l=litres,ml=ml,mL=mL,hL=hL,gal=gal,LT=long tons,ST=short tons,ly=light-years,pc=pc,"
    "AU=AU,au=AU,Mly=million light-years,/km2=per km²,/sqmi=per square mile,PD/sqkm=per km²,"
    "PD/sqmi=per square mile,inhabitants/km2=inhabitants/km²,m3/s=m³/s,cuft/s=cu ft/s,"
    "g/cm3=g/cm³,kg/m3=kg/m³,furlong=furlongs,fathom=fathoms,ftin=ft,long ton=long tons,"
    "short ton=short tons,sqfoot=square feet,sqyard=square yards,barrel=barrels,oilbbl=barrels,"
    "psi=psi,kPa=kPa,Pa=Pa,hPa=hPa,bar=bar,atm=atm,N=N,lbf=lbf,Nm=N·m,lbft=lb·ft,Hz=Hz,kHz=kHz,"
    "MHz=MHz,J=J,kJ=kJ,cal=cal,kcal=kcal,eV=eV,W=W,km=km,m=m,cm=cm,mm=mm,um=μm,nm=nm,mi=mi,ft=ft,"
    "in=in,yd=yd,kg=kg,g=g,mg=mg,Mt=Mt,kt=kt",
    ",",
)
_SMALLER = frozenset(word_list("ft in yd oz lb ch furlong rd"))
_SCALES = {"e3": " thousand", "e6": " million", "e9": " billion", "e12": " trillion"}
_SCALED = re.compile(r"(e3|e6|e9|e12)(?=[A-Za-z])")


def measure_words(positional: list[str]) -> str:
    """Numbers, ranges and units up to the one to convert to: `5 to 10 km`, `6 ft 2 in`."""
    parts, words = positional, ""
    while parts and _NUMBER.match(parts[0]) and (not words or _SMALLER.intersection(parts[1:2])):
        numbers, parts = _range(parts)
        unit = unit_words(parts[0]) if parts else ""
        words = f"{words} {numbers}{'' if unit.startswith(' ') else ' '}{unit}".strip()
        parts = parts[1:]
    return words if words or not positional else positional[0]


def unit_words(code: str) -> str:
    """A unit as it is read; a code that is not known stays as it is."""
    scale = _SCALED.match(code)
    if scale:
        return f"{_SCALES[scale[1]]} {unit_words(code[scale.end() :])}"
    return _UNITS.get(code, code)


def _range(parts: list[str]) -> tuple[str, list[str]]:
    """The numbers at the head, joined by the words between them, and what is left."""
    numbers = parts[0].replace("+", " ") if "/" in parts[0] else parts[0]
    place = 1
    while place + 1 < len(parts) and parts[place] in _BETWEEN and _NUMBER.match(parts[place + 1]):
        numbers += _BETWEEN[parts[place]] + parts[place + 1]
        place += 2
    return numbers, parts[place:]
