"""Units of measure: symbol, names, size, and the unit that `{{convert}}` shows beside each."""

import re
from dataclasses import dataclass, replace

from data_prep.wikitext.tables import entries

# code | symbol | name | plural where it is no `s` | size in its kind's base unit | kind | default
# A symbol of `-` stands for units that are always named, a name of `-` for those never named.
_TABLE = """
m|m|metre||1|length|ft
km|km|kilometre||1000|length|mi
cm|cm|centimetre||.01|length|in
mm|mm|millimetre||.001|length|in
dm|dm|decimetre||.1|length|in
um|μm|micrometre||1e-6|length|in
μm|μm|micrometre||1e-6|length|in
nm|nm|nanometre||1e-9|length|in
Mm|Mm|megametre||1e6|length|mi
Gm|Gm|gigametre||1e9|length|mi
mi|mi|mile||1609.344|length|km
smi|mi|mile||1609.344|length|km
nmi|nmi|nautical mile||1852|length|km
ft|ft|foot|feet|.3048|length|m
in|in|inch|inches|.0254|length|mm
yd|yd|yard||.9144|length|m
fathom|-|fathom||1.8288|length|ft
furlong|-|furlong||201.168|length|m
chain|-|chain||20.1168|length|m
rod|-|rod||5.0292|length|m
hand|h|hand||.1016|length|cm
AU|AU|astronomical unit||149597870700|length|km
au|AU|astronomical unit||149597870700|length|km
ly|ly|light-year||9.4607304725808e15|length|pc
pc|pc|parsec||3.0856775814913673e16|length|ly
m2|m²|square metre||1|area|sqft
km2|km²|square kilometre||1e6|area|sqmi
cm2|cm²|square centimetre||1e-4|area|sqin
mm2|mm²|square millimetre||1e-6|area|sqin
ha|ha|hectare||10000|area|acre
acre|-|acre||4046.8564224|area|ha
sqmi|sq mi|square mile||2589988.110336|area|km2
sqft|sq ft|square foot|square feet|.09290304|area|m2
sqyd|sq yd|square yard||.83612736|area|m2
sqin|sq in|square inch|square inches|.00064516|area|cm2
dunam|-|dunam||1000|area|ha
m3|m³|cubic metre||1|volume|cuft
km3|km³|cubic kilometre||1e9|volume|cumi
cm3|cm³|cubic centimetre||1e-6|volume|cuin
mm3|mm³|cubic millimetre||1e-9|volume|cuin
cc|cc|cubic centimetre||1e-6|volume|cuin
cuft|cu ft|cubic foot|cubic feet|.028316846592|volume|m3
cuyd|cu yd|cubic yard||.764554857984|volume|m3
cuin|cu in|cubic inch|cubic inches|1.6387064e-5|volume|cm3
cumi|cu mi|cubic mile||4168181825.440579584|volume|km3
acreft|acre⋅ft|acre-foot|acre-feet|1233.48183754752|volume|m3
L|L|litre||.001|volume|impgal USgal
mL|mL|millilitre||1e-6|volume|impoz USoz
cL|cL|centilitre||1e-5|volume|impoz USoz
hL|hL|hectolitre||.1|volume|impgal USgal
ML|ML|megalitre||1000|volume|cuft
impgal|imp gal|imperial gallon||.00454609|volume|L USgal
USgal|US gal|US gallon||.003785411784|volume|L impgal
impoz|imp fl oz|imperial fluid ounce||2.84130625e-5|volume|mL
USoz|US fl oz|US fluid ounce||2.95735295625e-5|volume|mL
imppt|imp pt|imperial pint||.00056826125|volume|L
USpt|US pt|US pint||.000473176473|volume|L
oilbbl|bbl|barrel||.158987294928|volume|m3
g|g|gram||.001|mass|oz
kg|kg|kilogram||1|mass|lb
mg|mg|milligram||1e-6|mass|gr
t|t|tonne||1000|mass|LT ST
Mt|Mt|megatonne||1e9|mass|LT ST
kt|kt|kilotonne||1e6|mass|LT ST
lb|lb|pound||.45359237|mass|kg
oz|oz|ounce||.028349523125|mass|g
st|st|stone|stone|6.35029318|mass|lb kg
LT|-|long ton||1016.0469088|mass|t
ST|-|short ton||907.18474|mass|t
cwt|cwt|hundredweight|hundredweight|50.80234544|mass|kg
gr|gr|grain||6.479891e-5|mass|g
carat|-|carat||.0002|mass|g
ozt|ozt|troy ounce||.0311034768|mass|g
m/s|m/s|metre per second|metres per second|1|speed|ft/s
km/h|km/h|kilometre per hour|kilometres per hour|.2777777777777778|speed|mph
km/s|km/s|kilometre per second|kilometres per second|1000|speed|mi/s
mi/s|mi/s|mile per second|miles per second|1609.344|speed|km/s
mph|mph|mile per hour|miles per hour|.44704|speed|km/h
kn|kn|knot||.5144444444444445|speed|km/h
ft/s|ft/s|foot per second|feet per second|.3048|speed|m/s
ft/min|ft/min|foot per minute|feet per minute|.00508|speed|m/s
C|°C|-||1|temperature|F
F|°F|-||.5555555555555556|temperature|C
K|K|kelvin||1|temperature|F
C-change|°C|-||1|change|F-change
F-change|°F|-||.5555555555555556|change|C-change
Pa|Pa|pascal||1|pressure|psi
kPa|kPa|kilopascal||1000|pressure|psi
MPa|MPa|megapascal||1e6|pressure|psi
hPa|hPa|hectopascal||100|pressure|inHg
mbar|mbar|millibar||100|pressure|inHg
bar|bar|bar||100000|pressure|psi
atm|atm|standard atmosphere||101325|pressure|kPa
psi|psi|pound per square inch|pounds per square inch|6894.757293168361|pressure|kPa
inHg|inHg|inch of mercury|inches of mercury|3386.388640341|pressure|kPa
mmHg|mmHg|millimetre of mercury|millimetres of mercury|133.322387415|pressure|kPa
N|N|newton||1|force|lbf
kN|kN|kilonewton||1000|force|lbf
MN|MN|meganewton||1e6|force|lbf
lbf|lbf|pound-force|pounds-force|4.4482216152605|force|N
kgf|kgf|kilogram-force|kilograms-force|9.80665|force|lbf
Nm|N⋅m|newton-metre||1|torque|lbft
lbft|lb⋅ft|pound-foot|pound-feet|1.3558179483314|torque|Nm
J|J|joule||1|energy|cal
kJ|kJ|kilojoule||1000|energy|kcal
MJ|MJ|megajoule||1e6|energy|kWh
cal|cal|calorie||4.184|energy|J
kcal|kcal|kilocalorie||4184|energy|kJ
kWh|kWh|kilowatt-hour||3.6e6|energy|MJ
BTU|BTU|British thermal unit||1055.05585262|energy|kJ
W|W|watt||1|power|hp
kW|kW|kilowatt||1000|power|hp
MW|MW|megawatt||1e6|power|hp
GW|GW|gigawatt||1e9|power|hp
hp|hp|horsepower|horsepower|745.6998715822702|power|kW
bhp|bhp|brake horsepower|brake horsepower|745.6998715822702|power|kW
shp|shp|shaft horsepower|shaft horsepower|745.6998715822702|power|kW
PS|PS|metric horsepower|metric horsepower|735.49875|power|kW
/km2|/km²|per square kilometre|per square kilometre|1|density|/sqmi
/sqmi|/sq mi|per square mile|per square mile|.38610215854244585|density|/km2
PD/km2|/km²|-|-|1|density|PD/sqmi
PD/sqmi|/sq mi|-|-|.38610215854244585|density|PD/km2
/ha|/ha|per hectare|per hectare|100|density|/acre
/acre|/acre|per acre|per acre|247.10538146716533|density|/ha
g/cm3|g/cm³|gram per cubic centimetre|grams per cubic centimetre|1000|mass density|lb/cuin
kg/m3|kg/m³|kilogram per cubic metre|kilograms per cubic metre|1|mass density|lb/cuft
lb/cuft|lb/cu ft|pound per cubic foot|pounds per cubic foot|16.018463373960138|mass density|kg/m3
lb/cuin|lb/cu in|pound per cubic inch|pounds per cubic inch|27679.90471019|mass density|g/cm3
m3/s|m³/s|cubic metre per second|cubic metres per second|1|flow|cuft/s
cuft/s|cu ft/s|cubic foot per second|cubic feet per second|.028316846592|flow|m3/s
m3/d|m³/d|cubic metre per day|cubic metres per day|1.1574074074074073e-5|flow|cuft/d
oilbbl/d|bbl/d|barrel per day|barrels per day|1.8401307283333332e-6|flow|m3/d
L/s|L/s|litre per second|litres per second|.001|flow|cuft/s
Hz|Hz|hertz|hertz|1|frequency|
kHz|kHz|kilohertz|kilohertz|1000|frequency|
MHz|MHz|megahertz|megahertz|1e6|frequency|
""".strip()

_OTHER_CODES = entries(
    "miles=mi mile=mi metre=m metres=m meter=m meters=m kilometre=km kilometres=km "
    "kilometer=km kilometers=km feet=ft foot=ft inch=in inches=in yard=yd yards=yd sqkm=km2 "
    "sqm=m2 sqcm=cm2 mi2=sqmi ft2=sqft in2=sqin yd2=sqyd square_mile=sqmi acres=acre "
    "hectare=ha hectares=ha cum=m3 ft3=cuft in3=cuin yd3=cuyd mi3=cumi l=L litre=L liter=L "
    "ml=mL cl=cL hl=hL Ml=ML gal=USgal usgal=USgal U.S.gal=USgal USfloz=USoz impfloz=impoz "
    "bbl=oilbbl gram=g grams=g kilogram=kg kilograms=kg tonne=t tonnes=t MT=t long_ton=LT "
    "short_ton=ST pound=lb pounds=lb lbs=lb ounce=oz stone=st kph=km/h kmh=km/h knot=kn "
    "knots=kn °C=C °F=F PD/sqkm=PD/km2 /sqkm=/km2 nautical_mile=nmi ct=carat fps=ft/s "
    "N.m=Nm N·m=Nm lbf.ft=lbft lb.ft=lbft ftlbf=lbft cumec=m3/s cufoot=cuft acre.ft=acreft "
    "acre-ft=acreft feet_=ft light-year=ly cufoot/s=cuft/s ft3/s=cuft/s lb/ft3=lb/cuft "
    "lb/in2=psi mb=mbar celsius=C fahrenheit=F"
)
_OFFSETS = {"C": 273.15, "F": 459.67 * 5 / 9}
"""What a temperature of 0 is in kelvins."""

_SCALES = {"e3": 1e3, "e6": 1e6, "e9": 1e9, "e12": 1e12, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALE_WORDS = {1e3: "thousand", 1e6: "million", 1e9: "billion", 1e12: "trillion"}
_SCALED = re.compile(r"(e3|e6|e9|e12)(?=[A-Za-z])|([kMGT])(?=oilbbl|cuft|USgal|impgal)")

COMPOSITES = {"ftin": ("ft", "in", 12), "ft in": ("ft", "in", 12), "stlb": ("st", "lb", 14)}
"""Two units that are shown one behind the other: larger, smaller, how many make one."""

CHINESE = entries(
    "m=米 km=公里 cm=厘米 mm=毫米 mi=英里 nmi=海里 ft=英尺 in=英寸 yd=码 m2=平方米 "
    "km2=平方公里 ha=公顷 acre=英亩 sqmi=平方英里 sqft=平方英尺 m3=立方米 cuft=立方英尺 L=升 "
    "impgal=英制加仑 USgal=美制加仑 g=克 kg=公斤 t=吨 lb=磅 oz=盎司 LT=长吨 ST=短吨 m/s=米每秒 "
    "km/h=公里每小时 mph=英里每小时 kn=节 ft/s=英尺每秒 hp=马力 kW=千瓦 MW=兆瓦 W=瓦特 "
    "ly=光年 AU=天文单位 C=°C F=°F"
)


@dataclass(frozen=True)
class Unit:
    """A unit: how it is written and how large it is."""

    code: str
    symbol: str
    singular: str
    plural: str
    scale: float
    """How many base units of its kind it holds."""

    kind: str
    default: str
    """The codes of the units that it is shown in where none is asked for."""

    offset: float = 0.0
    """What its zero is in the base unit; temperatures have one."""


def find_unit(code: str) -> Unit | None:
    """The unit of a code of `{{convert}}`, or None where it is not known."""
    scaled = _SCALED.match(code)
    if not scaled:
        return _UNITS.get(_OTHER_CODES.get(code.replace(" ", "_"), code))
    unit = find_unit(code[scaled.end() :])
    if unit is None or unit.offset:
        return None
    scale = _SCALES[scaled[0]]
    word = _SCALE_WORDS[scale]
    return replace(
        unit,
        code=code,
        symbol=f"{word} {unit.symbol}",
        singular=f"{word} {unit.plural}",
        plural=f"{word} {unit.plural}",
        scale=unit.scale * scale,
        default=" ".join(f"{scaled[0]}{other}" for other in unit.default.split()),
    )


def _unit(line: str) -> Unit:
    code, symbol, singular, plural, scale, kind, default = line.split("|")
    if code.startswith("PD"):
        singular, plural = (f"{word} {_UNIT_NAMES[code]}" for word in ("inhabitant", "inhabitants"))
    singular = symbol if singular == "-" else singular
    plural = singular if symbol == singular else plural or f"{singular}s"
    return Unit(
        code=code,
        symbol=plural if symbol == "-" else symbol,
        singular=singular,
        plural=plural,
        scale=float(scale),
        kind=kind,
        default=default,
        offset=_OFFSETS.get(code, 0.0),
    )


_UNIT_NAMES = {"PD/km2": "per square kilometre", "PD/sqmi": "per square mile"}
_UNITS = {unit.code: unit for unit in map(_unit, _TABLE.splitlines())}
